#!/usr/bin/env bash
# Prints the arguments that make a test runner skip the tests of the parts that LUDGATE_TEST_WITHOUT names.
#
#   tests/without.sh nextest|cargo
#
# The runner skips such tests and counts them as skipped. A test that looked for its part by itself and returned
# would be counted as passed. A test that is missing in this table fails where its part is missing.
set -euo pipefail

# One prefix of test names in each line.
tests_of() {
  case $1 in
    curl) echo 'wire::curl::' ;;
    redis)
      echo 'replicas::'
      echo 'sessions::store::'
      echo 'wire::floods::made_up_cookies_cost_the_session_store_little_and_others_nothing'
      ;;
    faketime) echo 'sessions::clock_jumps::' ;;
    http)
      echo 'wire::real_programs::'
      echo 'access::forward_auth_nginx::'
      echo 'forwarding::forged_headers::a_script_of_a_real_cgi_server_is_told_who_asks_by_us_alone'
      echo 'forwarding::forwarded_for::behind_a_real_nginx_a_byte_of_the_client_hides_no_address'
      ;;
    chromium)
      echo 'chromium::'
      echo 'sign_in::saved_forms::in_a_browser_one_click_signs_in_and_sends_it'
      echo 'sign_in::renew::in_a_browser_a_fragment_survives_and_a_window_renews_the_session_of_a_page'
      ;;
    oidc-provider) echo 'sign_in::real_provider::' ;;
    *)
      echo "LUDGATE_TEST_WITHOUT: there is no part \"$1\"" >&2
      return 2
      ;;
  esac
}

IFS=, read -ra parts <<<"${LUDGATE_TEST_WITHOUT:-}"
prefixes=()
for part in "${parts[@]}"; do
  found=$(tests_of "$part")
  mapfile -t -O "${#prefixes[@]}" prefixes <<<"$found"
done
[[ ${#prefixes[@]} -gt 0 ]] || exit 0
case ${1:-} in
  nextest) (IFS='|' && echo "-E !test(/^(${prefixes[*]})/)") ;;
  cargo) printf -- '--skip %s ' "${prefixes[@]}" ;;
  *) echo 'usage: tests/without.sh nextest|cargo' >&2 && exit 2 ;;
esac
