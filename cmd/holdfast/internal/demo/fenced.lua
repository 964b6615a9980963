-- KEYS[1] stock of one product: hash of units, token, owner
-- ARGV[1] fencing token   ARGV[2] owner of the grant   ARGV[3] new units, or '' to read
-- {1, units}   admitted; the token is the mark now
-- {0, token}   refused: this token was seen
local have = redis.call('HMGET', KEYS[1], 'units', 'token', 'owner')
local seen, token = tonumber(have[2] or 0), tonumber(ARGV[1])
if token < seen or (token == seen and have[3] ~= ARGV[2]) then return {0, have[2]} end
if ARGV[3] == '' then
  redis.call('HSET', KEYS[1], 'token', ARGV[1], 'owner', ARGV[2])
  return {1, have[1] or '0'}
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'owner', ARGV[2], 'units', ARGV[3])
return {1, ARGV[3]}
