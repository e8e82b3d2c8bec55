-- What one name goes through; the rules are those of engine/state.rs, and a
-- test takes both through the same steps.

-- Which names are in use from now on, and which are not.
local listed = {}

-- What concerns all names of the shard, once for the whole call.
local function keep_index()
  for text, is_there in pairs(listed) do
    if is_there then
      entered[#entered + 1], entered[#entered + 2] = '0', text
    else
      left[#left + 1] = text
    end
  end
  settle()
end

local function take_key()
  next_key = next_key + 1
  return KEYS[next_key - 1]
end

-- The name at hand ----------------------------------------------------------

local summary, details, name, state, known, changed, fresh
local orphans = {}

-- A claim, of plain bytes as it came or as it is stored: they differ in what
-- stands before.
local function plain(text, from)
  local ttl, delay = numbers('>I8I8', text, from)
  local more = unpacked(sub(text, from + 32))
  return { 'a', sub(text, from + 16, from + 31), more[1], 0, 0, more[2], ttl, delay, more[3],
    more[4], more[5], 0 }
end

local function seated(verb, since, expires, fence)
  return { verb[2], verb[3], verb[4], verb[5], verb[6], verb[7], verb[8], verb[9], verb[10], since,
    expires, 0, fence, NONE, false, verb[11] == 2 }
end

-- A name with a holder and nothing else.
local function held(text)
  local expires, fence, since = numbers('>I8I8I8', text, 2)
  local seat = seated(plain(text, 26), since, expires, fence)
  local keep = expires + seat[DELAY] + max(LINGER, 2 * seat[TTL])
  return { seat, 0, 0, 0, false, 0, 0, 0, false, keep }
end

local function stored(text)
  if not text then return { false, 0, 0, 0, false, 0, 0, 0, false, 0 } end
  local form = byte(text)
  return (form == P or form == Q) and held(text) or opened(text)
end

local function asked(text)
  local kind = byte(text)
  if kind == A or kind == L or kind == F then
    local verb = plain(text, 2)
    verb[12] = kind == A and 0 or kind == L and 1 or 2
    return verb
  end
  if kind == S then
    local span = string.format('%.0f', (numbers('>I8', text, 18)))
    return { 'u', sub(text, 2, 17), 0, 0, false, sub(text, 26), span, true }
  end
  if kind == R then return { 'r', sub(text, 2, 17), (numbers('>I8', text, 18)) } end
  if kind == U then return { 'u', sub(text, 2), 0, 0, false, false, 0 } end
  return unpacked(sub(text, 2))
end

local function open()
  summary, details = take_key(), take_key()
  name = sub(summary, FROM)
  known, changed = redis.call('GET', summary), false
  state = stored(known)
  fresh = state[COUNT] == 0 and state[HEAD] == state[TAIL]
end

local function is_idle()
  return not state[SOLE] and state[COUNT] == 0 and state[HEAD] == state[TAIL]
end

-- A clean end is not worth remembering.
local function is_forgotten()
  local last = state[LAST]
  return is_idle() and state[CLOSED] <= now and (not last or last[3] == RELEASED or last[4] + last[6] <= now)
end

local function save()
  if is_forgotten() then
    if known then redis.call('DEL', summary, details) end
    listed[name] = false
  elseif changed then
    local last = state[LAST]
    local memory = max(state[CLOSED], last and last[4] + last[6] or 0)
    local left = max(is_idle() and memory or max(state[KEEP], memory), now + 1) - now
    redis.call('SET', summary, pack(state), 'PX', left)
    if state[COUNT] > 0 or state[HEAD] < state[TAIL] then redis.call('PEXPIRE', details, left) end
    listed[name] = true
    longest = max(longest, left)
  end
end

-- Seats in the details ------------------------------------------------------

local function fetch(kind, id)
  local packed = redis.call('HGET', details, kind .. id)
  return packed and unpacked(packed)
end

-- What is there although nobody should be is of a summary that has gone
-- (evicted, say), and nobody's any more.
local function put(kind, seat)
  if fresh then redis.call('DEL', details) end
  fresh = false
  redis.call('HSET', details, kind .. seat[ID], pack(seat))
end

local function keep(seat)
  state[KEEP] = max(state[KEEP], seat[EXPIRES] + seat[DELAY] + max(LINGER, 2 * seat[TTL]))
  changed = true
end

local function is_sole(mode)
  return mode == EXCLUSIVE or mode == WRITE
end

-- All holders in the details, oldest first.
local function shared()
  local found, all = {}, redis.call('HGETALL', details)
  for at = 1, #all, 2 do
    if string.byte(all[at]) == 104 then found[#found + 1] = unpacked(all[at + 1]) end
  end
  table.sort(found, function(a, b) return a[FENCE] < b[FENCE] end)
  return found
end

local function holders()
  if state[SOLE] then return { state[SOLE] } end
  return state[COUNT] > 0 and shared() or {}
end

local function holder(id)
  local sole = state[SOLE]
  if sole then return sole[ID] == id and sole or nil end
  return state[COUNT] > 0 and fetch('h', id) or nil
end

-- Counts the holders that are there: details may have been evicted, or deleted
-- by an operator, and who is in no details holds nothing.
local function recount()
  local found, used = shared(), 0
  for _, seat in ipairs(found) do used = used + seat[TAKE] end
  state[COUNT], state[USED], changed = #found, used, true
  return found
end

-- Oldest holder; found again only if it has gone and somebody asks.
local function eldest()
  if state[SOLE] then return state[SOLE] end
  if state[COUNT] == 0 then return nil end
  local seat = state[ELDEST] and fetch('h', state[ELDEST])
  if not seat then
    seat = recount()[1]
    state[ELDEST] = seat and seat[ID] or false
  end
  return seat
end

local function store_holder(seat)
  if is_sole(seat[MODE]) then state[SOLE] = seat else put('h', seat) end
  keep(seat)
end

local function add_holder(seat)
  if not is_sole(seat[MODE]) then
    local first = state[COUNT] == 0
    state[SOONEST] = first and seat[EXPIRES] or min(state[SOONEST], seat[EXPIRES])
    if first then state[ELDEST] = seat[ID] end
    state[COUNT], state[USED] = state[COUNT] + 1, state[USED] + seat[TAKE]
  end
  store_holder(seat)
end

local function remove_holder(seat)
  changed = true
  if is_sole(seat[MODE]) then
    state[SOLE] = false
    return
  end
  redis.call('HDEL', details, 'h' .. seat[ID])
  state[COUNT], state[USED] = state[COUNT] - 1, state[USED] - seat[TAKE]
  if state[ELDEST] == seat[ID] then state[ELDEST] = false end
end

-- Remembers how a lease ended. A reader that leaves repairs nothing: the next
-- writer must still hear that the last one died.
local function finish(seat, how, at, actor, reason)
  for _, record in ipairs(seat[BOUND] or {}) do orphans[#orphans + 1] = record end
  local last = state[LAST]
  if seat[MODE] == READ and how == RELEASED and last and last[3] ~= RELEASED then return end
  state[LAST] = { seat[LABEL], seat[FENCE], how, at, actor or false, max(LINGER, 2 * seat[TTL]),
    reason or false, seat[ID] }
end

-- The queue -----------------------------------------------------------------

local function leave(seat)
  redis.call('HDEL', details, 'w' .. seat[ID], 'q' .. seat[SEQ])
  changed = true
end

local function waiter(id)
  local seat = state[HEAD] < state[TAIL] and fetch('w', id)
  if seat and seat[EXPIRES] > now then return seat end
  if seat then leave(seat) end
end

-- The first who still waits; drops those before it whose time is up.
local function head()
  while state[HEAD] < state[TAIL] do
    local id = redis.call('HGET', details, 'q' .. state[HEAD])
    local seat = id and fetch('w', id)
    if seat and seat[EXPIRES] > now then return seat end
    if seat then leave(seat) end
    state[HEAD], changed = state[HEAD] + 1, true
  end
end

local function join(seat)
  seat[SEQ] = state[TAIL]
  state[TAIL] = state[TAIL] + 1
  put('w', seat)
  redis.call('HSET', details, 'q' .. seat[SEQ], seat[ID])
  keep(seat)
end

local function fits(mode, take, of)
  if is_sole(mode) then return not state[SOLE] and state[COUNT] == 0 end
  if mode == READ then return not state[SOLE] end
  return state[USED] + take <= of
end

local function has_room(seat)
  return state[CLOSED] <= now and fits(seat[MODE], seat[TAKE], seat[OF])
end

local function grant(seat)
  local last = state[LAST]
  seat[SINCE], seat[FENCE], seat[PRED] = now, draw(), last and last[3] or NONE
  add_holder(seat)
end

local function tell(seat, news)
  if seat[CHANNEL] ~= '' then redis.call(PUBLISH, seat[CHANNEL], pack(news)) end
end

local function serve()
  local seat = head()
  while seat and has_room(seat) do
    leave(seat)
    state[HEAD] = state[HEAD] + 1
    grant(seat)
    if not seat[ASKS] then tell(seat, { 1, seat[ID], seat[FENCE], seat[PRED] }) end
    seat = head()
  end
end

local function lapse(seat)
  remove_holder(seat)
  state[CLOSED] = max(state[CLOSED], seat[EXPIRES] + seat[DELAY])
  finish(seat, EXPIRED, seat[EXPIRES])
end

-- Of many holders those are looked for only once one may have expired.
local function expire()
  local sole = state[SOLE]
  if sole then
    if sole[EXPIRES] <= now then lapse(sole) end
    return
  end
  if state[COUNT] == 0 or state[SOONEST] > now then return end
  local soonest, over = math.huge, {}
  for _, seat in ipairs(recount()) do
    if seat[EXPIRES] <= now then over[#over + 1] = seat else soonest = min(soonest, seat[EXPIRES]) end
  end
  table.sort(over, function(a, b)
    return a[EXPIRES] < b[EXPIRES] or (a[EXPIRES] == b[EXPIRES] and a[FENCE] < b[FENCE])
  end)
  for _, seat in ipairs(over) do lapse(seat) end
  state[SOONEST], changed = state[COUNT] > 0 and soonest or 0, true
end

-- Answers -------------------------------------------------------------------

local function shown(seat)
  return { seat[LABEL], seat[MODE], seat[TAKE], seat[OF], seat[FENCE] or 0, now - seat[SINCE],
    seat[EXPIRES] - now, seat[META] }
end

local function granted(seat)
  return { GRANTED, seat[FENCE], seat[EXPIRES] - now, seat[PRED] }
end

-- The earliest moment at which there may be room without anyone's doing.
local function opens_at(seat)
  if fits(seat[MODE], seat[TAKE], seat[OF]) then return state[CLOSED] end
  local sole = state[SOLE]
  return max(sole and sole[EXPIRES] + sole[DELAY] or state[SOONEST], state[CLOSED])
end

-- Whoever is not the head has nothing to look for before the head had its
-- chance.
-- The last number says that what was granted up to it was not granted to this
-- place: the news of it may still be on their way.
local function busy(seat, placed)
  local first, look = head(), opens_at(seat)
  if first and first[ID] ~= seat[ID] then look = max(look, first[EXPIRES]) end
  local oldest = eldest()
  local left = placed and placed[EXPIRES] - now or -1
  return { BUSY, max(look - now, 0), left, oldest and shown(oldest) or false, count }
end

local function kind(mode)
  return mode == WRITE and READ or mode
end

-- Who holds it or waits for it as another kind, if anyone.
local function other_kind(mode, of)
  local first = eldest() or head()
  if not first then return nil end
  local same = kind(first[MODE]) == kind(mode) and (mode ~= PERMITS or first[OF] == of)
  return not same and first or nil
end

local function is_mode(seat, mode, take, of)
  return seat[MODE] == mode and seat[TAKE] == take and seat[OF] == of
end

local function other(seat)
  return { OTHER_KIND, seat[MODE], seat[TAKE], seat[OF] }
end

-- Neither held nor queued. A holder that was told nothing hears who took it.
local function gone(id)
  local last = state[LAST]
  if last and last[3] == EVICTED and last[8] == id then return { GONE, last[5], last[7] } end
  return { GONE }
end

local function extend(seat, ttl)
  seat[EXPIRES] = max(seat[EXPIRES], now + ttl)
  seat[TTL] = max(seat[TTL], ttl)
end

-- Verbs ---------------------------------------------------------------------

local verbs = {}

-- { 'a', id, mode, take, of, label, ttl, delay, meta, channel, waits, loads }
-- where `waits` is 1 for who is told of its grant and 2 for who asks again, and
-- `loads` is 1 for a grant with the record and 2 if the record alone will do.
verbs['a'] = function(verb, record)
  local id, mode, ttl, waits = verb[2], verb[3], verb[7], verb[11] > 0
  local held, queued = holder(id), waiter(id)
  local mine = held or queued
  if mine and not is_mode(mine, mode, verb[4], verb[5]) then return other(mine) end
  if held then
    extend(held, ttl)
    store_holder(held)
    return granted(held)
  end
  if record and not queued and verb[12] == 2 then return { FOUND, record } end
  local stranger = other_kind(mode, verb[5])
  if stranger then return other(stranger) end
  if queued and waits then
    extend(queued, ttl)
    put('w', queued)
    keep(queued)
    return busy(queued, queued)
  end
  -- A try leaves nothing behind, not even what a wait left before.
  if queued then
    leave(queued)
    serve()
  end
  local seat = seated(verb, now, now + ttl, 0)
  if not head() and has_room(seat) then
    grant(seat)
    return granted(seat)
  end
  if waits then join(seat) end
  return busy(seat, waits and seat)
end

-- { 'r', id, ttl }
verbs['r'] = function(verb)
  local seat = holder(verb[2])
  if seat then
    extend(seat, verb[3])
    store_holder(seat)
    return { HELD, seat[EXPIRES] - now }
  end
  seat = waiter(verb[2])
  if not seat then return gone(verb[2]) end
  extend(seat, verb[3])
  put('w', seat)
  keep(seat)
  return { QUEUED, seat[EXPIRES] - now, count }
end

-- { 'u', id, keep_closed, cut_off, record (or false), value (or false), ttl,
--   whether the value is unlisted, and packed; whether the grant was unseen }
verbs['u'] = function(verb)
  local seat = holder(verb[2])
  local record = (verb[5] or verb[8]) and { take_key() }
  if verb[5] then record[2], record[3] = take_key(), take_key() end
  if not seat then
    seat = waiter(verb[2])
    if seat then leave(seat) end
    return seat and { DONE } or { GONE }
  end
  if verb[8] then
    file(record[1], verb[6], verb[7])
  elseif record then
    write(record, ARGV[3], verb[5], verb[6], verb[7])
  end
  local cut_off = verb[4] == 1
  local closed = max(cut_off and seat[DELAY] or 0, verb[3])
  remove_holder(seat)
  if closed > 0 then state[CLOSED] = max(state[CLOSED], now + closed) end
  local passed_on = verb[9] and seat[PRED] ~= NONE and seat[PRED]
  finish(seat, cut_off and EXPIRED or passed_on or RELEASED, now)
  return { DONE }
end

-- { 'c', id, mode, take, of }
verbs['c'] = function(verb)
  local seat = holder(verb[2])
  if not seat then return { GONE } end
  if not is_mode(seat, verb[3], verb[4], verb[5]) then
    if seat[MODE] ~= WRITE or verb[3] ~= READ then return other(seat) end
    remove_holder(seat)
    seat[MODE] = READ
    add_holder(seat)
  end
  return { HELD, seat[EXPIRES] - now }
end

local function is_among(names, name)
  for _, one in ipairs(names) do
    if one == name then return true end
  end
  return false
end

-- { 'b', id, record }: the record goes when the lease ends, however it ends.
verbs['b'] = function(verb)
  local seat = holder(verb[2])
  if not seat then return { GONE } end
  seat[BOUND] = seat[BOUND] or {}
  if not is_among(seat[BOUND], verb[3]) then
    seat[BOUND][#seat[BOUND] + 1] = verb[3]
    store_holder(seat)
  end
  return { HELD, seat[EXPIRES] - now }
end

-- { 'h', id }: whether it is held, and for how long.
verbs['h'] = function(verb)
  local seat = holder(verb[2])
  return seat and { HELD, seat[EXPIRES] - now } or { GONE }
end

-- { 'e', fence (or false), id (or false), actor, reason }
verbs['e'] = function(verb)
  local everyone, taken = not verb[2] and not verb[3], {}
  for _, seat in ipairs(holders()) do
    if everyone or seat[FENCE] == verb[2] or seat[ID] == verb[3] then
      remove_holder(seat)
      finish(seat, EVICTED, now, verb[4], verb[5])
      tell(seat, { 2, seat[ID], verb[4], verb[5] })
      taken[#taken + 1] = shown(seat)
    end
  end
  if everyone then state[CLOSED], changed = 0, true end
  return { TAKEN, taken }
end

-- { 'i' }: who holds and who waits.
verbs['i'] = function()
  local held, waiting, last = {}, {}, state[LAST]
  for at, seat in ipairs(holders()) do held[at] = shown(seat) end
  for at = state[HEAD], state[TAIL] - 1 do
    local id = redis.call('HGET', details, 'q' .. at)
    local seat = id and fetch('w', id)
    if seat and seat[EXPIRES] > now then waiting[#waiting + 1] = shown(seat) end
  end
  local remark = last and last[5] and 'by ' .. last[5] .. ': ' .. last[7]
  local ended = last and { last[1], last[2], last[3], now - last[4], remark or false }
  return { SHOWN, held, waiting, max(state[CLOSED] - now, 0), ended or false }
end

local function step(verb)
  -- Before anything is done: what fails here has had no effect.
  if verb[1] == 'u' and (verb[5] or verb[8]) then spare(KEYS[next_key]) end
  expire()
  -- Whoever leaves the queue is not served first: it would stand between a
  -- holder that died and the next one, who must hear of it.
  if verb[1] ~= 'u' then serve() end
  local record = verb[1] == 'a' and verb[12] > 0 and redis.call('GET', take_key())
  local answer = verbs[verb[1]](verb, record)
  serve()
  save()
  if record and answer[1] == GRANTED then answer[5] = record end
  return pack(answer)
end

local function take(text)
  open()
  return step(asked(text))
end

for at = 1, #rest, 2 do
  next_key = rest[at + 1]
  local answer, refused = outcome(pcall(take, ARGV[rest[at]]))
  if refused then return { err = refused } end
  answers[rest[at] - 3] = answer
end

keep_index()

-- Records whose lease has ended come last, for the client to clear away: their
-- keys were not known to the caller.
if #orphans > 0 then answers[#answers + 1] = pack(orphans) end
return answers
