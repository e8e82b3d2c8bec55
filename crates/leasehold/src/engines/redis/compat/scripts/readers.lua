-- How long a reader has: each hold has a key of its own below `base`.
local function reader_left(base, field)
  local most = -2
  for hold = tonumber(redis.call('HGET', lock, field)) or 0, 1, -1 do
    most = math.max(most, redis.call('PTTL', base .. ':' .. field .. ':rwlock_timeout:' .. hold))
  end
  return most
end

