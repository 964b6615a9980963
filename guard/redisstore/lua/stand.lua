-- Acquires by the full rule: the same owner again, tombstones, the queue, grace.
-- KEYS 1 lease  2 fence  3 queue  4 waiters  5 tombstone of the owner
-- ARGV 1 owner  2 ttl, ms  3 tail  4 floor, µs or ''  5 proposal, µs or ''  6 grace, s or ''
--      7 channel of the process, '' = do not queue  8 liveness, ms  9 claim window, ms  10 ticket of an earlier answer or ''
-- "G token sec usec waiting"                       granted; waiting is 1 if others stand in the queue
-- "H pttl mark sec usec rank ticket value"         held; pttl in ms, -1 without expiry, -2 free; rank -1 = not queued; value may hold anything
-- "T"  the owner was released    "R"  floor too far ahead    "U sec"  in grace for that long
-- "I"  INFO is denied, so grace cannot be told
local m = redis.call('GET', KEYS[2])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ms = math.floor(now / 1000)
local mark, look = 0, 0
if m then
  local a, u = string.match(m, '^(%d+)|?(%d*)$')
  mark, look = tonumber(a) or 0, tonumber(u) or 0
end
local b = now
if mark > 0 and mark + 64 > b then b = mark + 64 end
if ARGV[5] ~= '' then
  local p = tonumber(ARGV[5])
  if p > b and p <= now + 60000000 then b = p end
end
if ARGV[4] ~= '' then
  local f = tonumber(ARGV[4])
  if f > now + 3600000000 then return 'R' end
  if f > b then b = f end
end
if redis.call('EXISTS', KEYS[5]) == 1 then return 'T' end
local stamp = ' ' .. t[1] .. ' ' .. t[2]
local own, v = ARGV[1], redis.call('GET', KEYS[1])
if v and string.sub(v, 2, 24) == own .. '|' then
  -- a copy that comes late must not shorten what a newer one was promised
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return 'G ' .. string.match(v, '^.[^|]*|(%d+)') .. stamp .. (string.sub(v, 1, 1) == '+' and ' 1' or ' 0')
end
if not v and ARGV[6] ~= '' then
  local info = redis.pcall('INFO', 'server')
  local up = type(info) == 'string' and tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
  if not up then return 'I' end
  if up < tonumber(ARGV[6]) then return 'U ' .. string.format('%.0f', ARGV[6] - up) end
end
local function grant(o, base, ttl, tail, waiting)
  local token = string.format('%.0f', base)
  redis.call('SET', KEYS[1], (waiting and '+' or '-') .. o .. '|' .. token .. '|' .. tail, 'NX', 'PX', ttl)
  redis.call('SET', KEYS[2], look > ms and token .. '|' .. string.format('%.0f', look) or token, 'PX', math.floor((base - now) / 1000) + 3600000)
  return token
end
-- Whoever stands before a ticket and has asked lately. Those who have not may be
-- dead, and a waiter that finds the name free does not wait for them.
local function before(ticket)
  local all = redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do
    if tonumber(all[i + 1]) >= ticket then return nil end
    local dead = string.match(redis.call('HGET', KEYS[4], all[i]) or '', '^(%d+)|')
    if dead and tonumber(dead) - ms > ARGV[8] / 2 then return all[i] end
  end
end
local channel, message
if not v then
  while true do
    local h = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
    local next = h
    if h and ARGV[10] ~= '' then next = before(tonumber(ARGV[10])) end
    if not next or next == own then
      if h then redis.call('ZREM', KEYS[3], own); redis.call('HDEL', KEYS[4], own) end
      local waiting = h and redis.call('EXISTS', KEYS[3]) == 1
      return 'G ' .. grant(own, b, ARGV[2], ARGV[3], waiting) .. stamp .. (waiting and ' 1' or ' 0')
    end
    h = next
    local dead, ch, tail = string.match(redis.call('HGET', KEYS[4], h) or '', '^(%d+)|([^|]*)|(.*)$')
    redis.call('ZREM', KEYS[3], h)
    redis.call('HDEL', KEYS[4], h)
    if dead and tonumber(dead) > ms then
      local token = grant(h, b, ARGV[9], tail, true)
      channel, message = ch, 'G ' .. h .. ' ' .. token .. ' ' .. ARGV[9] .. stamp .. ' ' .. KEYS[1]
      mark = b
      break
    end
  end
end
local rank, ticket = -1, '-'
if ARGV[7] ~= '' then
  redis.call('HSET', KEYS[4], own, string.format('%.0f', ms + ARGV[8]) .. '|' .. ARGV[7] .. '|' .. ARGV[3])
  ticket = redis.call('ZSCORE', KEYS[3], own)
  if not ticket then -- an earlier ticket keeps its place
    ticket = ARGV[10] ~= '' and ARGV[10] or string.format('%.0f', (tonumber(redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2]) or 0) + 1)
    redis.call('ZADD', KEYS[3], ticket, own)
  end
  rank = redis.call('ZRANK', KEYS[3], own)
  local keep = 3 * ARGV[8]
  redis.call('PEXPIRE', KEYS[3], keep)
  redis.call('PEXPIRE', KEYS[4], keep)
  if v and string.match(v, '^%-' .. string.rep('[%w_-]', 22) .. '|%d+|') then redis.call('SETRANGE', KEYS[1], 0, '+') end
  if ms + keep - look > ARGV[8] / 3 then
    local px = math.max(keep, mark > 0 and math.floor((mark - now) / 1000) + 3600000 or 0)
    redis.call('SET', KEYS[2], string.format('%.0f|%.0f', mark, ms + keep), 'PX', px)
  end
end
local answer = 'H ' .. string.format('%.0f', redis.call('PTTL', KEYS[1])) .. ' ' .. string.format('%.0f', mark) .. stamp .. ' ' .. rank .. ' ' .. ticket .. ' ' .. (v or '')
if channel then redis.pcall('PUBLISH', channel, message) end
return answer
