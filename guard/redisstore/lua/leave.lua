-- Ends a lease, or abandons an owner, by the full rule: minimum hold, hand-over
-- to the head of the queue, tombstone.
-- KEYS 1 lease  2 fence  3 queue  4 waiters  5 tombstone of the owner
-- ARGV 1 owner  2 life of the tombstone, ms  3 '1' = an acquire of this owner may still be on its way
--      4 server ms before which the name stays taken (minimum hold), or ''  5 claim window, ms
--      6 liveness left, ms, with which a waiter has asked so lately that it is there
-- "D" deleted   "P owner" passed on   "M ms" the minimum hold runs   "N" nobody holds it   "O" another holds it
local own, v = ARGV[1], redis.call('GET', KEYS[1])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ms = math.floor(now / 1000)
local mark, look = string.match(redis.call('GET', KEYS[2]) or '0', '^(%d+)|?(%d*)$')
mark, look = tonumber(mark) or 0, tonumber(look) or 0
local mine = v and string.sub(v, 2, 24) == own .. '|'
if ARGV[3] == '1' or not mine then
  redis.call('ZREM', KEYS[3], own) -- first, since a server out of memory lets a script go on that has written
  redis.call('HDEL', KEYS[4], own)
end
if ARGV[3] == '1' then
  redis.call('SET', KEYS[5], '1', 'PX', ARGV[2])
  look = math.max(look, ms + ARGV[2])
  redis.call('SET', KEYS[2], string.format('%.0f|%.0f', mark, look), 'PX', math.max(look - ms, math.floor((mark - now) / 1000) + 3600000))
end
if not mine then return v and 'O' or 'N' end
local function channelOf(h) return h and string.match(redis.call('HGET', KEYS[4], h) or '', '^%d+|([^|]*)|') end
if ARGV[4] ~= '' and tonumber(ARGV[4]) > ms then
  local rest = string.format('%.0f', ARGV[4] - ms)
  redis.call('SET', KEYS[1], '~' .. string.rep('.', 22) .. string.sub(v, 24), 'PX', rest)
  local h = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
  local ch = channelOf(h)
  if ch then redis.pcall('PUBLISH', ch, 'T ' .. h .. ' ' .. rest) end
  return 'M ' .. rest
end
while true do
  local h = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
  if not h then
    redis.call('DEL', KEYS[1], KEYS[4])
    return 'D'
  end
  local dead, ch, tail = string.match(redis.call('HGET', KEYS[4], h) or '', '^(%d+)|([^|]*)|(.*)$')
  redis.call('ZREM', KEYS[3], h)
  redis.call('HDEL', KEYS[4], h)
  if dead and tonumber(dead) > ms then
    local b = math.max(mark + 64, now)
    local token = string.format('%.0f', b)
    local n = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
    redis.call('SET', KEYS[1], (n and '+' or '-') .. h .. '|' .. token .. '|' .. tail, 'PX', ARGV[5])
    redis.call('SET', KEYS[2], look > ms and token .. '|' .. string.format('%.0f', look) or token, 'PX', math.floor((b - now) / 1000) + 3600000)
    local nch = channelOf(n)
    redis.pcall('PUBLISH', ch, 'G ' .. h .. ' ' .. token .. ' ' .. ARGV[5] .. ' ' .. t[1] .. ' ' .. t[2] .. ' ' .. KEYS[1])
    -- who is next is told when to look, in case the head is dead
    if nch and nch ~= ch and dead - ms < tonumber(ARGV[6]) then redis.pcall('PUBLISH', nch, 'T ' .. n .. ' ' .. ARGV[5]) end
    return 'P ' .. h
  end
end
