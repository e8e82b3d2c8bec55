-- Redisson's locks are hashes: owner -> how often it holds. Ours hold once.
local owner = id .. ':1'

-- The lease id of an owner of ours; another owner as it is.
local function who(field)
  return string.match(field, '^(.*):1$') or field
end

-- What the key is instead of a plain lock (or of a read-write lock, if `shared`).
local function misfit(shared)
  local kind = redis.call('TYPE', lock).ok
  if kind == 'none' then return nil end
  if kind == 'string' then return 'a semaphore or a string' end
  if kind ~= 'hash' then return 'a ' .. kind end
  local has_mode = redis.call('HEXISTS', lock, 'mode') == 1
  if has_mode and not shared then return 'a read-write lock' end
  if shared and not has_mode then return 'a plain lock' end
end

local function holds(field)
  return redis.pcall('HEXISTS', lock, field) == 1
end
