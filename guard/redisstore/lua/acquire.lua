-- Grants a free name for which nobody waits; otherwise sends the caller to stand.
-- KEYS 1 lease  2 fence
-- ARGV 1 "-" owner "|"  2 ttl, ms  3 tail  [4 floor, µs or ''  5 proposal, µs or ''  6 grace, s or '']
-- "G token sec usec"  granted     "S"  not decided here
local m = redis.call('GET', KEYS[2])
local b, px = 0, 3600000
if m then
  b = tonumber(m)
  if not b then return 'S' end -- the mark says: look further
  b = b + 64
end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if b < now then b = now end
if ARGV[4] then
  if ARGV[6] ~= '' then return 'S' end
  local p = tonumber(ARGV[5])
  if p and p > b and p <= now + 60000000 then b = p end
  local f = tonumber(ARGV[4])
  if f and f > now + 3600000000 then return 'S' end
  if f and f > b then b = f end
end
if b ~= now then px = math.floor((b - now) / 1000) + 3600000 end
local token = string.format('%.0f', b)
if not redis.call('SET', KEYS[1], ARGV[1] .. token .. '|' .. ARGV[3], 'NX', 'PX', ARGV[2]) then return 'S' end
redis.call('SET', KEYS[2], token, 'PX', px)
return 'G ' .. token .. ' ' .. t[1] .. ' ' .. t[2]
