-- A fair lock has a list of owners that wait, and when each is given up.
local queue, deadlines = KEYS[5], KEYS[6]

-- Gives up those at the head that are late, never the one who asks; the head.
local function next_in_line()
  while true do
    local head = redis.call('LINDEX', queue, 0)
    if not head or head == owner then return head end
    local deadline = redis.call('ZSCORE', deadlines, head)
    if not deadline or tonumber(deadline) > now then return head end
    redis.call('ZREM', deadlines, head)
    redis.call('LPOP', queue)
  end
end

-- Those behind one who leaves have waited for it in vain, or long enough.
local function move_up(members)
  for _, member in ipairs(members) do
    redis.call('ZINCRBY', deadlines, -queue_wait, member)
  end
end

local function wake_next()
  if redis.call('EXISTS', lock) == 1 then return end
  local head = next_in_line()
  if head then publish(channel .. ':' .. head, '0') end
end
