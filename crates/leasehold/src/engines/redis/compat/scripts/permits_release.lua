local waited = step_out()
local alive = deadline_of(id)
if give_back(permits_of(id, take), channel) > 0 then leave(id) end
return (alive or waited) and 1 or 0
