local misfit = misfit(false)
if misfit then return other(misfit) end
local head = next_in_line()
if holds(owner) then return granted(true, true, keep(lock, ttl)) end
local holder = redis.call('HKEYS', lock)[1]
if not holder and (not head or head == owner) then
  if head then
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, owner)
    move_up(redis.call('ZRANGE', deadlines, 0, -1))
  end
  redis.call('HSET', lock, owner, 1)
  redis.call('PEXPIRE', lock, ttl)
  return granted(false, true, ttl)
end
if wait > 0 then
  -- Whoever acquires lowers the deadlines behind it by its own wait, so each is
  -- later than the one before. Asking again moves it on: a Java waiter does not.
  local place = redis.call('LPOS', queue, owner)
  local before = nil
  if not place then
    before = redis.call('LINDEX', queue, -1)
    redis.call('RPUSH', queue, owner)
  elseif place > 0 then
    before = redis.call('LINDEX', queue, place - 1)
  end
  local after = before and tonumber(redis.call('ZSCORE', deadlines, before) or 0) or 0
  local known = tonumber(redis.call('ZSCORE', deadlines, owner) or 0)
  local deadline = math.max(math.max(after, now) + queue_wait, known)
  redis.call('ZADD', deadlines, digits(deadline), owner)
end
local again = math.floor(queue_wait / 3)
if holder then
  local left = redis.call('PTTL', lock)
  return busy(left < 0 and again or math.min(left, again), who(holder), left)
end
local late = tonumber(redis.call('ZSCORE', deadlines, head) or now + again) - now
return busy(math.max(1, math.min(late, again)))
