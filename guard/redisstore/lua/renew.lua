-- Extends a lease. Raises the stored token and the mark to the token, never lowers them.
-- KEYS 1 lease  2 fence
-- ARGV 1 owner  2 ttl, ms  3 token, µs
-- "G waiting token"  renewed; waiting is 1 if others stand in the queue; token is the one stored now
-- "N" nobody holds it    "O" another holds it    "R" token too far ahead
local v = redis.call('GET', KEYS[1])
if not v then return 'N' end
if string.sub(v, 2, 24) ~= ARGV[1] .. '|' then return 'O' end
local answer = string.sub(v, 1, 1) == '+' and 'G 1 ' or 'G 0 '
local stored, rest = string.match(string.sub(v, 25), '^(%d+)(|.*)$')
if stored == ARGV[3] or tonumber(stored) >= tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return answer .. stored
end
local t = redis.call('TIME')
local now, token = t[1] * 1000000 + t[2], tonumber(ARGV[3])
if token > now + 3600000000 then return 'R' end
local mark, look = string.match(redis.call('GET', KEYS[2]) or '0', '^(%d+)(|?%d*)$')
mark = math.max(tonumber(mark) or 0, token)
local px = math.floor((mark - now) / 1000) + 3600000
if px > 0 then redis.call('SET', KEYS[2], string.format('%.0f', mark) .. (look or ''), 'PX', px) end
redis.call('SET', KEYS[1], string.sub(v, 1, 24) .. ARGV[3] .. rest, 'PX', ARGV[2])
return answer .. ARGV[3]
