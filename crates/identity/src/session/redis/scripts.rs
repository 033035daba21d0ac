//! What Redis does in one step. Every script touches one key, or one record and its tombstone,
//! which share a slot of a cluster.
//!
//! A record is a hash: `v` its version, `r` what it says, sealed, `b` when it began. How long it
//! counts is the key's own time to live, so that only Redis' clock measures it. A tombstone says
//! when a record was ended, and outlives every copy of it.

use redis::Script;

/// Kept at most this much longer than it counts, in milliseconds, so that use that was not told yet
/// is not lost.
pub const GRACE: u64 = 120_000;

/// The scripts, ready to be called.
pub struct Scripts {
    /// Keys: record, tombstone. Arguments: version, sealed, time to live (ms), when it began (s).
    /// Gives back the time to live, or [`ENDED`], and the version that stands there: an older one
    /// never replaces a newer one.
    pub save: Script,
    /// Keys: record, tombstone. Gives back what it says (or nil), its time to live, and when it was
    /// ended (or -1).
    pub load: Script,
    /// Keys: record, tombstone. Argument: time to live (ms). Gives back the time to live and the
    /// version; [`MISSING`] or [`ENDED`] in place of the first.
    pub touch: Script,
    /// Keys: record, tombstone. Arguments: when (s), how long that is remembered (ms), whether it
    /// is said again (1 or 0): then what began later is left alone. Gives back when it ended: not
    /// before it began, whatever the clocks say.
    pub end: Script,
    /// Key: revocation. Arguments: when (s), how long that is remembered (ms).
    pub revoke: Script,
    /// Key: lock. Argument: whose it is.
    pub unlock: Script,
    /// Key: the list of a person's sign-ins. Arguments: the key of one, how long the list is kept
    /// (ms). Puts it last, once, and gives back the list.
    pub append: Script,
}

/// The record was ended.
pub const ENDED: i64 = -10;
/// There is no such record.
pub const MISSING: i64 = -11;

impl Scripts {
    /// All of them.
    pub fn new() -> Scripts {
        Scripts {
            save: Script::new(SAVE),
            load: Script::new(LOAD),
            touch: Script::new(TOUCH),
            end: Script::new(END),
            revoke: Script::new(REVOKE),
            unlock: Script::new(UNLOCK),
            append: Script::new(APPEND),
        }
    }
}

const SAVE: &str = r"
local ended = redis.call('GET', KEYS[2])
if ended and tonumber(ended) >= tonumber(ARGV[4]) then return { -10, 0 } end
local version = tonumber(redis.call('HGET', KEYS[1], 'v') or '0')
if version < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'v', ARGV[1], 'r', ARGV[2], 'b', ARGV[4])
  version = tonumber(ARGV[1])
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return { redis.call('PTTL', KEYS[1]), version }
";

const LOAD: &str = r"
local record = redis.call('HGET', KEYS[1], 'r')
return { record, redis.call('PTTL', KEYS[1]), tonumber(redis.call('GET', KEYS[2]) or '-1') }
";

const TOUCH: &str = r"
local ended = redis.call('GET', KEYS[2])
local begun = redis.call('HGET', KEYS[1], 'b')
if ended and (not begun or tonumber(ended) >= tonumber(begun)) then return { -10, 0 } end
local left = redis.call('PTTL', KEYS[1])
if left == -2 then return { -11, 0 } end
if left < tonumber(ARGV[1]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  left = tonumber(ARGV[1])
end
return { left, tonumber(redis.call('HGET', KEYS[1], 'v') or '0') }
";

const END: &str = r"
local when = tonumber(ARGV[1])
local known = tonumber(redis.call('GET', KEYS[2]) or '-1')
local is_record = redis.call('TYPE', KEYS[1]).ok == 'hash'
local begun = tonumber(is_record and redis.call('HGET', KEYS[1], 'b') or '-1')
if ARGV[3] == '1' and begun > when then return math.max(when, known) end
when = math.max(when, known, begun)
redis.call('SET', KEYS[2], when, 'PX', ARGV[2])
redis.call('DEL', KEYS[1])
return when
";

const REVOKE: &str = r"
local when = math.max(tonumber(ARGV[1]), tonumber(redis.call('GET', KEYS[1]) or '-1'))
redis.call('SET', KEYS[1], when, 'PX', ARGV[2])
return when
";

const UNLOCK: &str = r"
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 0
";

const APPEND: &str = r"
redis.call('LREM', KEYS[1], 0, ARGV[1])
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('LRANGE', KEYS[1], 0, -1)
";
