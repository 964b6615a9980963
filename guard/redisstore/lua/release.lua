-- Ends leases for which nobody waits; otherwise sends the caller to leave.
-- For each name: KEYS  lease     ARGV  "-" owner "|"
-- One line for each name: "D"  deleted    "S"  not decided here
local function free(i)
  local v = redis.call('GET', KEYS[i])
  if not v or string.sub(v, 1, 24) ~= ARGV[i] then return 'S' end
  redis.call('DEL', KEYS[i])
  return 'D'
end

if #KEYS == 1 then return free(1) end
local lines = {}
for i = 1, #KEYS do -- what fails for one name is no matter of the others, and it is asked for again
  local ok, line = pcall(free, i)
  lines[i] = ok and line or 'S'
end
return table.concat(lines, '\n')
