-- The last fence or version: one counter for both, for all names of the shard.
-- The next one is larger than all before, even if the counter was lost: as long
-- as the clock does not go back.
local before = tonumber(redis.call('GET', KEYS[1])) or 0
local count = math.max(before, micros - 1)
