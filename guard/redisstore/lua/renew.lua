-- Extends leases. Raises the stored token and the mark to the token, never lowers them.
-- For each name: KEYS  lease  fence     ARGV  owner  ttl, ms  token, µs
-- One line for each name:
-- "G waiting token"  renewed; waiting is 1 if others stand in the queue; token is the one stored now
-- "N" nobody holds it    "O" another holds it    "R" token too far ahead    "S" failed, to be asked for alone
local function renew(k, a)
  local lease, fence, owner, ttl, asked = KEYS[k], KEYS[k + 1], ARGV[a], ARGV[a + 1], ARGV[a + 2]
  local v = redis.call('GET', lease)
  if not v then return 'N' end
  if string.sub(v, 2, 24) ~= owner .. '|' then return 'O' end
  local answer = string.sub(v, 1, 1) == '+' and 'G 1 ' or 'G 0 '
  local stored, rest = string.match(string.sub(v, 25), '^(%d+)(|.*)$')
  if stored == asked or tonumber(stored) >= tonumber(asked) then
    redis.call('PEXPIRE', lease, ttl)
    return answer .. stored
  end
  local t = redis.call('TIME')
  local now, token = t[1] * 1000000 + t[2], tonumber(asked)
  if token > now + 3600000000 then return 'R' end
  local mark, look = string.match(redis.call('GET', fence) or '0', '^(%d+)(|?%d*)$')
  mark = math.max(tonumber(mark) or 0, token)
  local px = math.floor((mark - now) / 1000) + 3600000
  if px > 0 then redis.call('SET', fence, string.format('%.0f', mark) .. (look or ''), 'PX', px) end
  redis.call('SET', lease, string.sub(v, 1, 24) .. asked .. rest, 'PX', ttl)
  return answer .. asked
end

if #KEYS == 2 then return renew(1, 1) end
local lines = {}
for i = 1, #KEYS / 2 do
  local ok, line = pcall(renew, 2 * i - 1, 3 * i - 2)
  lines[i] = ok and line or 'S'
end
return table.concat(lines, '\n')
