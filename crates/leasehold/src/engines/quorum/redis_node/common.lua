-- What all scripts of a node share.
--
-- KEYS[1] is the lock of a mutex: a string, id:number:since:inscription, with
-- an expiry. Whatever else is stored there belongs to a stranger who locks by
-- the same rule: who sets the key has the lock.
-- KEYS[2] are readers and writer: a hash, id -> mode:number:since:ends:inscription.
-- KEYS[3] are the counters of the namespace: a hash.
--
-- This is layout 1. Another has other texts: a mutex is then a stranger's, who
-- has it; readers and a writer are refused. Counters are numbers in all of them.
--
-- An id has 32 digits: 20 of the ticket, 12 of the round. Rounds of one ticket
-- are different leases, and only its last round is still meant.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function digits(number)
  return string.format('%.0f', number)
end

-- Whether `other` is this lease, or an earlier round of its ticket.
local function past(other, id)
  return #other == 32 and string.sub(other, 1, 20) == string.sub(id, 1, 20)
    and tonumber(string.sub(other, 21), 16) <= tonumber(string.sub(id, 21), 16)
end

-- Number of the mutex, if this lease has it; what is stored there; whose it is.
local function mutex(id)
  local held = redis.call('GET', KEYS[1])
  if not held then return nil, nil, '' end
  local owner, number = string.match(held, '^(%x+):(%d+):')
  if owner == id then return number, held, owner end
  return nil, held, owner or ''
end

-- Readers and writer whose time is not over. What is written in any other way is
-- of another release: it is refused before anything is done.
local function tenants()
  local found, flat = {}, redis.call('HGETALL', KEYS[2])
  for i = 1, #flat, 2 do
    local mode, number, since, ends, text = string.match(flat[i + 1], '^(%a):(%d+):(%d+):(%d+):(.*)$')
    if not mode then error('LAYOUT of a reader or writer', 0) end
    if tonumber(ends) > now then
      found[flat[i]] = {mode = mode, number = number, since = since, ends = ends, text = text}
    else
      redis.call('HDEL', KEYS[2], flat[i])
    end
  end
  return found
end

-- Writes one of them, and lets the key live as long as the last of them.
local function settle(found, id, it)
  found[id] = it
  redis.call('HSET', KEYS[2], id, table.concat({it.mode, it.number, it.since, it.ends, it.text}, ':'))
  local last = 0
  for _, each in pairs(found) do last = math.max(last, tonumber(each.ends)) end
  redis.call('PEXPIREAT', KEYS[2], digits(last))
end
