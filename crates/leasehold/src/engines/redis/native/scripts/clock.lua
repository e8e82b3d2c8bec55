-- The time, by the server alone: in microseconds, and in the milliseconds
-- that everything else is counted in.
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
