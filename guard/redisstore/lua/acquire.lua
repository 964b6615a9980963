-- Grants free names for which nobody waits; otherwise sends the caller to stand.
-- For each name: KEYS  lease  fence
-- ARGV  "-" owner "|"  ttl, ms  tail  [floor, µs or ''  proposal, µs or ''  grace, s or '']
-- One line for each name: "G token sec usec"  granted     "S"  not decided here
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local stamp = t[1] .. string.sub('00000' .. t[2], -6)
local per = #ARGV / #KEYS * 2

local function up(grace)
  -- The last save was not before the server's start, and costs less than INFO.
  local saved = redis.pcall('LASTSAVE')
  if type(saved) == 'number' and t[1] - saved >= grace then return true end
  local info = redis.pcall('INFO', 'server')
  local age = type(info) == 'string' and tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
  return age and age >= grace
end
-- A mark lives for an hour longer than it is ahead.
local function px(mark) return string.format('%.0f', math.floor((mark - now) / 1000) + 3600000) end

local function grant(k, a)
  local lease, fence, owner, ttl, tail = KEYS[k], KEYS[k + 1], ARGV[a], ARGV[a + 1], ARGV[a + 2]
  local b, token = now, stamp
  if per > 3 then
    local f, p, grace = tonumber(ARGV[a + 3]), tonumber(ARGV[a + 4]), tonumber(ARGV[a + 5])
    if grace and not up(grace) then return 'S' end
    if f and f > now + 3600000000 then return 'S' end
    if p and p > b and p <= now + 60000000 then b = p end
    if f and f > b then b = f end
    if b > now then token = string.format('%.0f', b) end
  end
  if not redis.call('SET', lease, owner .. token .. '|' .. tail, 'NX', 'PX', ttl) then return 'S' end
  -- One command reads the mark and moves it: a mark in the past, as nearly every one is, needs no other.
  local m = redis.pcall('SET', fence, token, 'PX', b == now and '3600000' or px(b), 'GET')
  if m then
    local mark = tonumber(m)
    if not mark then -- the mark says: look further
      redis.call('DEL', lease)
      if type(m) == 'table' then return m end
      local above, after = string.match(m, '^(%d+)|(%d+)$')
      b = math.max(tonumber(above) or 0, now - 3599000000)
      redis.call('SET', fence, m, 'PX', math.max(px(b), (tonumber(after) or 0) - math.floor(now / 1000)))
      return 'S'
    end
    if mark + 64 > b then
      b = mark + 64
      token = string.format('%.0f', b)
      redis.call('SET', lease, owner .. token .. '|' .. tail, 'XX', 'PX', ttl)
      redis.call('SET', fence, token, 'PX', px(b))
    end
  end
  return 'G ' .. token .. ' ' .. t[1] .. ' ' .. t[2]
end

if #KEYS == 2 then return grant(1, 1) end
local lines = {}
for i = 1, #KEYS / 2 do -- what fails for one name is no matter of the others, and it is asked for again
  local ok, line = pcall(grant, 2 * i - 1, per * (i - 1) + 1)
  lines[i] = ok and type(line) == 'string' and line or 'S'
end
return table.concat(lines, '\n')
