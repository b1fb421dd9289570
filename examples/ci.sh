#!/bin/sh
# Lets a model work in a runner of CI: nobody can be asked there, and there may be neither a home folder nor a terminal.
#
#     ANTHROPIC_API_KEY=… examples/ci.sh 'make check' 'Make the tests pass.'
#     ANTHROPIC_API_KEY=… examples/ci.sh 'make check' '/workflow fix-test make check'
#
# The model may edit files and run the command of the tests, in this run alone. Anything else that needs an approval, a
# push for example, is refused, and the model goes on without it. Writes the report to ./edn-bridge-report.json, and ends
# with the status of the prompt.
set -u
tests=${1:?the command of the tests is missing}
message=${2:?the message is missing}

# Without a home folder there is no place for state.
if [ -z "${HOME:-}${EDN_BRIDGE_STATE_DIR:-}" ]; then
  EDN_BRIDGE_STATE_DIR=$(mktemp -d) || exit 1
  export EDN_BRIDGE_STATE_DIR
  trap 'rm -rf "$EDN_BRIDGE_STATE_DIR"' EXIT
fi

edn-bridge --mode accept-edits prompt --ephemeral --timeout 20m --allow "bash:$tests" --output json "$message" \
  </dev/null >edn-bridge-report.json
status=$?
case $status in
  0) echo 'The model has answered.' ;;
  1) echo 'The turn or the workflow failed.' ;;
  3) echo 'The server cannot be reached: try the job again.' ;;
  4) echo 'The configuration, a key or a model is missing.' ;;
  5) echo 'A limit ended the work.' ;;
  7) echo 'The model has answered, but calls were refused; the report names a rule for each under "refused".' ;;
  *) echo "edn-bridge ended with status $status." ;;
esac
exit "$status"
