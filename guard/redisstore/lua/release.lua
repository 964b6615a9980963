-- Ends a lease for which nobody waits; otherwise sends the caller to leave.
-- KEYS 1 lease
-- ARGV 1 "-" owner "|"
-- "D"  deleted    "S"  not decided here
local v = redis.call('GET', KEYS[1])
if not v or string.sub(v, 1, 24) ~= ARGV[1] then return 'S' end
redis.call('DEL', KEYS[1])
return 'D'
