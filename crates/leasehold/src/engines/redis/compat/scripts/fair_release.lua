local gone = step_out()
local place = redis.call('LPOS', queue, owner)
if place then
  move_up(redis.call('LRANGE', queue, place + 1, -1))
  redis.call('ZREM', deadlines, owner)
  redis.call('LREM', queue, 0, owner)
  gone = true
end
if holds(owner) then
  redis.call('DEL', lock)
  leave(id)
  gone = true
end
wake_next()
return gone and 1 or 0
