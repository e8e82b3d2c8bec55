-- Whether a lease with this inscription is held on a node of a quorum, and as
-- what: the number of its mode, or 0. KEYS are the mutex, and readers and writer.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local text = redis.call('GET', KEYS[1])
if text and string.find(text, ARGV[1], 1, true) then return 1 end
local all = redis.call('HGETALL', KEYS[2])
for at = 2, #all, 2 do
  local mode, ends, rest = string.match(all[at], '^leasehold:%w+:(%a):%d+:%d+:(%d+):(.*)$')
  if tonumber(ends) > now and string.find(':' .. rest, ARGV[1], 1, true) then
    return mode == 'r' and 2 or 3
  end
end
return 0
