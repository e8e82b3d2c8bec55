-- id, mode, number seen, fence, counter
local id, seen, fence = ARGV[1], ARGV[3], ARGV[4]
if ARGV[2] == 'x' then
  local number, held = mutex(id)
  if number ~= seen then return 0 end
  local text = string.match(held, '^%x+:%d+:(.*)$')
  redis.call('SET', KEYS[1], marked(id, fence, text), 'KEEPTTL')
else
  local found = tenants()
  local mine = found[id]
  if not mine or mine.number ~= seen then return 0 end
  mine.number = fence
  settle(found, id, mine)
end
local last = tonumber(redis.call('HGET', KEYS[3], ARGV[5]) or 0)
redis.call('HSET', KEYS[3], ARGV[5], digits(math.max(last, tonumber(fence))))
return 1
