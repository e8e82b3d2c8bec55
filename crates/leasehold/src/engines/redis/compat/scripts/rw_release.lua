local waited = step_out()
local mode = redis.pcall('HGET', lock, 'mode')
if type(mode) ~= 'string' then return waited and 1 or 0 end
-- Both: the reply to a conversion may have been lost.
local wrote = redis.call('HDEL', lock, writer) == 1
local read = redis.call('HDEL', lock, owner) == 1
local alive = redis.call('DEL', lease) == 1
if wrote then
  if redis.call('HLEN', lock) == 1 then
    redis.call('DEL', lock)
  else
    redis.call('HSET', lock, 'mode', 'read')
  end
  publish(channel, '1')
elseif read then
  after_reader(mode, channel)
end
if wrote or read then leave(id) end
return (wrote or alive or waited) and 1 or 0
