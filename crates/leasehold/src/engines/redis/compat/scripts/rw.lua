-- A read-write lock: the field `mode`, a field for each holder, and for each
-- reader a key that lives as long as its lease.
local writer, lease, base = owner .. ':write', KEYS[5], KEYS[6]

-- One of those who hold it.
local function any_holder()
  for _, field in ipairs(redis.call('HKEYS', lock)) do
    if field ~= 'mode' then return who((string.gsub(field, ':write$', ''))) end
  end
end

-- What is left after a reader: others of them, or nothing.
local function after_reader(mode, told)
  local most = -2
  for _, field in ipairs(redis.call('HKEYS', lock)) do
    if field ~= 'mode' then most = math.max(most, reader_left(base, field)) end
  end
  if most > 0 then
    -- Writers were told to wait for longer.
    if redis.call('PTTL', lock) > most then publish(told, '0') end
    redis.call('PEXPIRE', lock, most)
  elseif mode == 'read' or redis.call('HLEN', lock) == 1 then
    redis.call('DEL', lock)
    publish(told, '0')
  end
end
