-- What all scripts of a node share.
--
-- KEYS[1] is the lock of a mutex: a string, id:number:since:inscription behind
-- the mark of the layout, with an expiry. Whatever else is stored there belongs
-- to a stranger who locks by the same rule: who sets the key has the lock.
-- KEYS[2] are readers and writer: a hash, id -> mode:number:since:ends:inscription
-- behind the mark.
-- KEYS[3] are the counters of the namespace: a hash. They are numbers in every
-- layout.
--
-- What another release has stored in another layout is never ours: it is not
-- extended, raised or removed, and who asks for the name, or looks, is told of it.
--
-- An id has 32 digits: 20 of the ticket, 12 of the round. Rounds of one ticket
-- are different leases, and only its last round is still meant.

local MARK = 'leasehold:'
local VERSION, EARLIEST = '2', '1'

-- The layout of what another release has stored, once that was found.
local other_layout

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

local function marked(...)
  return MARK .. VERSION .. ':' .. table.concat({...}, ':')
end

-- What is behind the mark of our layout; nothing if there is none.
local function unmarked(stored)
  if string.sub(stored, 1, #MARK) ~= MARK then return nil end
  local version, text = string.match(stored, '^(%w*):(.*)$', #MARK + 1)
  if version == VERSION then return text end
  other_layout = version or '?'
end

-- Number of the mutex, if this lease has it; what is stored there, without its
-- mark; whose it is.
local function mutex(id)
  local held = redis.call('GET', KEYS[1])
  if not held then return nil, nil, '' end
  local text = unmarked(held)
  if not text then
    -- Before there was a mark; an id like that is no stranger's.
    local earlier = string.match(held, '^(%x+):%d+:%d+:%d+:')
    if earlier and #earlier == 32 then other_layout = EARLIEST end
    return nil, held, ''
  end
  local owner, number = string.match(text, '^(%x+):(%d+):')
  if owner == id then return number, text, owner end
  return nil, text, owner or ''
end

-- Readers and writer whose time is not over. Nobody but us writes there.
local function tenants()
  local found, flat = {}, redis.call('HGETALL', KEYS[2])
  for i = 1, #flat, 2 do
    local text = unmarked(flat[i + 1])
    local mode, number, since, ends, inscription =
      string.match(text or '', '^(%a):(%d+):(%d+):(%d+):(.*)$')
    if not mode then
      other_layout = other_layout or EARLIEST
    elseif tonumber(ends) > now then
      found[flat[i]] = {mode = mode, number = number, since = since, ends = ends, text = inscription}
    else
      redis.call('HDEL', KEYS[2], flat[i])
    end
  end
  return found
end

-- Writes one of them, and lets the key live as long as the last of them.
local function settle(found, id, it)
  found[id] = it
  redis.call('HSET', KEYS[2], id, marked(it.mode, it.number, it.since, it.ends, it.text))
  -- How long those of another layout are to stay, only the key says.
  local last = other_layout and now + redis.call('PTTL', KEYS[2]) or 0
  for _, each in pairs(found) do last = math.max(last, tonumber(each.ends)) end
  redis.call('PEXPIREAT', KEYS[2], digits(last))
end
