//! The Lua scripts. Each touches keys of one person, or one other key.
//!
//! An operation is a hash: `number`, `kind`, `state` (`open` or `ended`), `owner` (the token of the
//! last lock under which it ran, or empty), `key`, `plan`, `pod`, and `end`. A lock is a text: the
//! token of its owner. Events are a list, so that the place of an event is its index.

use redis::Script;

/// The scripts, ready to be called.
pub(super) struct Scripts {
    /// Keys: operation, lock. Arguments: the version that the caller has seen, token, how long the
    /// lock lasts (ms), how long the operation is kept (ms), then number, kind, key, plan and pod.
    /// Returns 0 if the version is another one, 1 if the operation waits for the lock, 2 if the
    /// caller has the lock.
    pub(super) begin: Script,
    /// Keys: operation, lock. Arguments: token, how long the lock lasts (ms). Returns 0 if no
    /// operation is open, 1 if another owner has the lock, 2 if the caller has it.
    pub(super) claim: Script,
    /// Keys: lock, operation. Arguments: token, how long the lock lasts (ms), number. Returns 0 if
    /// the lock is lost, 1 if it is renewed, 2 if another operation is to run.
    pub(super) renew: Script,
    /// Keys: lock, events. Arguments: token, place of the first event, how long events are kept
    /// (ms), then the events. Events that are there stay. Returns 0 if the lock is lost.
    pub(super) append: Script,
    /// Keys: lock, operation. Arguments: token, number, uid. Returns 0 if the lock is lost.
    pub(super) set_pod: Script,
    /// Keys: lock, operation, events. Arguments: token, number, the end, how long operation and
    /// events are kept (ms). Releases the lock. Returns 0 if the lock is lost.
    pub(super) end: Script,
    /// Key: lock. Argument: token.
    pub(super) release: Script,
    /// Key: open. Argument: username. Adds a person, with the time of Redis.
    pub(super) add_open: Script,
    /// Key: open. Arguments: username, age (ms). Removes a person who was added longer ago.
    pub(super) remove_open: Script,
    /// Key: epoch. Returns for how long Redis has had its data (ms).
    pub(super) age: Script,
}

impl Scripts {
    pub(super) fn new() -> Scripts {
        Scripts {
            begin: Script::new(BEGIN),
            claim: Script::new(CLAIM),
            renew: Script::new(RENEW),
            append: Script::new(APPEND),
            set_pod: Script::new(SET_POD),
            end: Script::new(END),
            release: Script::new(RELEASE),
            add_open: Script::new(ADD_OPEN),
            remove_open: Script::new(REMOVE_OPEN),
            age: Script::new(AGE),
        }
    }
}

const BEGIN: &str = r"
local version = ''
local number = redis.call('HGET', KEYS[1], 'number')
if number then version = number .. ':' .. redis.call('HGET', KEYS[1], 'state') end
if version ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'number', ARGV[5], 'kind', ARGV[6], 'key', ARGV[7],
  'plan', ARGV[8], 'pod', ARGV[9], 'state', 'open', 'owner', '', 'end', '')
redis.call('PEXPIRE', KEYS[1], ARGV[4])
if not redis.call('SET', KEYS[2], ARGV[2], 'NX', 'PX', ARGV[3]) then return 1 end
redis.call('HSET', KEYS[1], 'owner', ARGV[2])
return 2
";

const CLAIM: &str = r"
if redis.call('HGET', KEYS[1], 'state') ~= 'open' then return 0 end
if not redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
return 2
";

const RENEW: &str = r"
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if redis.call('HGET', KEYS[2], 'number') ~= ARGV[3] then return 2 end
return 1
";

const APPEND: &str = r"
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local first = tonumber(ARGV[2])
local length = redis.call('LLEN', KEYS[2])
if length < first then return 0 end
for at = 4, #ARGV do
  if first + at - 4 >= length then redis.call('RPUSH', KEYS[2], ARGV[at]) end
end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
";

const SET_POD: &str = r"
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('HGET', KEYS[2], 'number') == ARGV[2] then
  redis.call('HSET', KEYS[2], 'pod', ARGV[3])
end
return 1
";

const END: &str = r"
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('HGET', KEYS[2], 'number') == ARGV[2] then
  redis.call('HSET', KEYS[2], 'state', 'ended', 'plan', '', 'end', ARGV[3])
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
end
redis.call('PEXPIRE', KEYS[3], ARGV[5])
redis.call('DEL', KEYS[1])
return 1
";

const RELEASE: &str = r"
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 0
";

const ADD_OPEN: &str = r"
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
return 0
";

const REMOVE_OPEN: &str = r"
local time = redis.call('TIME')
local added = redis.call('ZSCORE', KEYS[1], ARGV[1])
local age = time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(added or '0')
if added and age > tonumber(ARGV[2]) then redis.call('ZREM', KEYS[1], ARGV[1]) end
return 0
";

const AGE: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('SET', KEYS[1], string.format('%.0f', now), 'NX')
return math.max(0, now - tonumber(redis.call('GET', KEYS[1])))
";
