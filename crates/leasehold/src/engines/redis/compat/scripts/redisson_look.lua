-- Any of Redisson's locks, whichever kind the key is.
local queue, base, rw_channel, sc_channel = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local evicts = id ~= ''
local holders, hit = {}, {}

local function found(holder, take_away)
  if not evicts then
    holders[#holders + 1] = holder
  elseif aimed_at(holder) then
    hit[#hit + 1] = holder
    leave(holder[2])
    take_away()
  end
end

local function drop_field(field)
  redis.call('HDEL', lock, field)
  redis.call('DEL', base .. ':' .. field .. ':rwlock_timeout:1')
  if redis.call('HLEN', lock) == 1 then redis.call('DEL', lock) end
  publish(rw_channel, '1')
end

local function drop_lock()
  redis.call('DEL', lock)
  publish(channel, '0')
  local head = redis.call('LINDEX', queue, 0)
  if head then publish(channel .. ':' .. head, '0') end
end

local function look_at_hash()
  local shared, left = redis.call('HEXISTS', lock, 'mode') == 1, redis.call('PTTL', lock)
  for _, field in ipairs(redis.call('HKEYS', lock)) do
    local writer = string.match(field, '^(.*):write$')
    if not shared then
      found(shown(who(field), left, 'exclusive'), drop_lock)
    elseif writer then
      found(shown(who(writer), left, 'write'), function() drop_field(field) end)
    elseif field ~= 'mode' and reader_left(base, field) > 0 then
      found(shown(who(field), reader_left(base, field), 'read'), function() drop_field(field) end)
    end
  end
end

-- Our own first, by their cards; what is left then is of others.
local function look_at_permits()
  local total = (tonumber(redis.call('GET', lock)) or 0) + redis.call('ZCARD', taken)
  local known = {}
  for _, lease in ipairs(redis.call('HKEYS', card)) do
    local deadline = lease ~= 'fence' and deadline_of(lease)
    if deadline then
      local count = tonumber(string.match(redis.call('HGET', card, lease), ' permits (%d+)/')) or 1
      local permits = permits_of(lease, count)
      for _, permit in ipairs(permits) do known[permit] = true end
      local mode = 'permits ' .. count .. '/' .. digits(total)
      found(shown(lease, deadline - now, mode), function() give_back(permits, sc_channel) end)
    end
  end
  for _, permit in ipairs(redis.call('ZRANGEBYSCORE', taken, '(' .. digits(now), '+inf')) do
    if not known[permit] then
      local left = tonumber(redis.call('ZSCORE', taken, permit)) - now
      local holder = shown(uuid(permit), left, 'permits 1/' .. digits(total))
      found(holder, function() give_back({permit}, sc_channel) end)
    end
  end
end

local kind = redis.call('TYPE', lock).ok
if kind == 'hash' then look_at_hash() end
if kind == 'string' then look_at_permits() end
if evicts then return {now, hit, {}} end

-- A fair lock has its line in a list, ours among others.
local places = line()
local owners = redis.call('LRANGE', queue, 0, -1)
if #owners == 0 then return {now, holders, places} end
local ours = {}
for _, place in ipairs(places) do ours[string.sub(place, 1, 36) .. ':1'] = place end
for index, waiter in ipairs(owners) do owners[index] = ours[waiter] or waiter end
return {now, holders, owners}
