-- One of sysbench's own scripts, and beside it: which thread of the server serves each client,
-- told before the first transaction, and counts.lua's count of what each client has done.
require(os.getenv("KNEEPOINT_SCRIPT"))
local counts = dofile(os.getenv("KNEEPOINT_COUNTER"))

local inherited_init, inherited_event = thread_init, event
local begin, ended

function thread_init()
   inherited_init()
   local thread, host = con:query_row("SELECT TID, HOST FROM information_schema.PROCESSLIST " ..
                                         "WHERE ID = CONNECTION_ID()")
   begin, ended = counts.of(sysbench.tid)
   -- Standard error is unbuffered, and one line is one write: threads do not tear each other's.
   io.stderr:write(string.format("kneepoint: client %d is served by thread %s from %s\n",
                                 sysbench.tid, thread, host))
   io.stderr:write(string.format("kneepoint: client %d runs as thread %d\n", sysbench.tid,
                                 io.open("/proc/thread-self/stat"):read("*n")))
end

function event()
   local begun = begin()
   -- Ends the client; sysbench does not count this as an event.
   if not begun then return true end
   inherited_event()
   ended(begun)
end
