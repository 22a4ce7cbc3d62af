-- One of sysbench's own scripts, and beside it: which thread of the server serves each client,
-- told before the first transaction, and how many transactions each client ended.
require(os.getenv("KNEEPOINT_SCRIPT"))

local inherited_init, inherited_done, inherited_event = thread_init, thread_done, event
local ended = 0

-- Standard error is unbuffered, and one line is one write: threads do not tear each other's.
local function tell(...)
   io.stderr:write("kneepoint: client " .. sysbench.tid .. " " .. string.format(...) .. "\n")
end

function thread_init()
   inherited_init()
   local thread, host = con:query_row("SELECT TID, HOST FROM information_schema.PROCESSLIST " ..
                                         "WHERE ID = CONNECTION_ID()")
   tell("is served by thread %s from %s", thread, host)
end

function event()
   inherited_event()
   ended = ended + 1
end

function thread_done()
   tell("ended %d", ended)
   inherited_done()
end
