if holds(writer) then
  local left = math.max(1, redis.call('PTTL', lock))
  redis.call('HDEL', lock, writer)
  redis.call('HSET', lock, 'mode', 'read', owner, 1)
  redis.call('SET', lease, 1, 'PX', left)
  publish(channel, '1')
  return {1, left}
end
if holds(owner) and redis.call('EXISTS', lease) == 1 then
  return {1, redis.call('PTTL', lease)}
end
return {0}
