#!/usr/bin/env bash
# Makes sure that a Java which can run Spark is there: installs one where that is possible, says what to do elsewhere.
set -euo pipefail

oldest=17

new_enough() {
  local java="${JAVA_HOME:+$JAVA_HOME/bin/}java" version
  version=$("$java" -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' | head -n 1) || return 1
  [ "${version:-0}" -ge "$oldest" ]
}

installable() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && grep -qE '^ID(_LIKE)?=.*(debian|ubuntu)' /etc/os-release
}

new_enough && exit 0
if [ -n "${JAVA_HOME:-}" ]; then
  echo "JAVA_HOME is $JAVA_HOME, which is not a Java $oldest or newer: correct it or unset it." >&2
  exit 1
fi
if ! installable; then
  echo "Java $oldest or newer is needed to run Spark. Install it, or point JAVA_HOME at it:" >&2
  echo "  Debian, Ubuntu:  sudo apt-get install openjdk-$oldest-jre-headless" >&2
  echo "  Fedora:          sudo dnf install java-latest-openjdk-headless" >&2
  echo "  macOS:           brew install openjdk@$oldest" >&2
  exit 1
fi
apt-get update -qq
for package in "openjdk-$oldest-jre-headless" openjdk-21-jre-headless openjdk-25-jre-headless; do
  if apt-cache show "$package" >/dev/null 2>&1; then
    echo "Installing $package"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
    break
  fi
done
new_enough || { echo "No package of Java $oldest or newer was found; install one by hand." >&2; exit 1; }
