-- Grants a free name for which nobody waits; otherwise sends the caller to stand.
-- KEYS 1 lease  2 fence
-- ARGV 1 "-" owner "|"  2 ttl, ms  3 tail  [4 floor, µs or ''  5 proposal, µs or ''  6 grace, s or '']
-- "G token sec usec"  granted     "S"  not decided here
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local b, token, px = now, t[1] .. string.sub('00000' .. t[2], -6), '3600000'
local function raise(to)
  b, token = to, string.format('%.0f', to)
  px = string.format('%.0f', math.floor((to - now) / 1000) + 3600000)
end
if ARGV[4] then
  if ARGV[6] ~= '' then
    -- The last save was not before the server's start, and costs less than INFO.
    local grace, saved = tonumber(ARGV[6]), redis.pcall('LASTSAVE')
    if type(saved) ~= 'number' or t[1] - saved < grace then
      local info = redis.pcall('INFO', 'server')
      local up = type(info) == 'string' and tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
      if not up or up < grace then return 'S' end
    end
  end
  local f, p = tonumber(ARGV[4]), tonumber(ARGV[5])
  if f and f > now + 3600000000 then return 'S' end
  if p and p > b and p <= now + 60000000 then raise(p) end
  if f and f > b then raise(f) end
end
if not redis.call('SET', KEYS[1], ARGV[1] .. token .. '|' .. ARGV[3], 'NX', 'PX', ARGV[2]) then return 'S' end
-- One command reads the mark and moves it: a mark in the past, as nearly every one is, needs no other.
local m = redis.pcall('SET', KEYS[2], token, 'PX', px, 'GET')
if m then
  local mark = tonumber(m)
  if not mark then -- the mark says: look further
    redis.call('DEL', KEYS[1])
    if type(m) == 'table' then return m end
    local a, u = string.match(m, '^(%d+)|(%d+)$')
    raise(math.max(tonumber(a) or 0, now - 3599000000))
    redis.call('SET', KEYS[2], m, 'PX', math.max(px, (tonumber(u) or 0) - math.floor(now / 1000)))
    return 'S'
  end
  if mark + 64 > b then
    raise(mark + 64)
    redis.call('SET', KEYS[1], ARGV[1] .. token .. '|' .. ARGV[3], 'XX', 'PX', ARGV[2])
    redis.call('SET', KEYS[2], token, 'PX', px)
  end
end
return 'G ' .. token .. ' ' .. t[1] .. ' ' .. t[2]
