#!/bin/sh
# Writes random secrets for compose.yaml into the folder `secrets`, once. Needs openssl.
set -eu
cd "$(dirname "$0")"
if [ -e secrets ]; then
  echo "the folder secrets exists already: remove it and the volumes to begin again (docker compose down --volumes)" >&2
  exit 1
fi

# Containers read these files as other users, so every file is readable; the folder is for its owner only.
mkdir -m 700 secrets
umask 022
cd secrets
openssl rand -hex 32 >client-secret
openssl rand -base64 32 >session-keys
openssl rand -hex 16 >keycloak-admin-password
openssl rand -hex 8 >alice-password

# The rights are those of docs/sessions.md.
redis=$(openssl rand -hex 32)
echo "redis://ludgate:$redis@127.0.0.1:6379" >session-store
cat >redis-users <<END
user default off
user ludgate on >$redis ~ludgate:* &ludgate:events -@all +auth +hello +select +time +subscribe +publish +eval +evalsha +script|load +get +set +getdel +del +exists +pexpire +pttl +hget +hset +rpush +lrem +lrange +sadd +srem +smembers +type
END
