#!/bin/sh
# check_loops.sh NM OBJECT...: what the loops of one instruction set may link against.
#
# No inline function of others: it would exist once in the program, compiled for any of the sets. And in the elementwise
# loops no scalar mathematics: it means that a loop was not vectorised.
nm=$1
shift
bad=0
for object in "$@"; do
  if "$nm" -C "$object" | grep -E '^[0-9a-f]+ [WVu] ' | grep -v 'DW\.ref\.'; then
    echo "$object shares these with other instruction sets"
    bad=1
  fi
  case $object in
    *unary.cc*|*binary.cc*|*compare.cc*|*convert.cc*|*random.cc*)
      if "$nm" "$object" | grep -E ' U (a?(sin|cos|tan)h?|atan2|exp|expm1|log|log10|log2|log1p|pow|erf|fmod|hypot)f?$'; then
        echo "$object calls these one element at a time"
        bad=1
      fi ;;
  esac
done
exit $bad
