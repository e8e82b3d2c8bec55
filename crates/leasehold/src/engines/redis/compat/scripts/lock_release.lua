local waited = step_out()
if not holds(owner) then return waited and 1 or 0 end
redis.call('DEL', lock)
publish(channel, '0')
leave(id)
return 1
