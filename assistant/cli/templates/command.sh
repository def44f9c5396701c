# An example to replace: a made-up cost of a blocked computation, printed as one line of JSON.
threads=$1 block=$2 layout=$3 seed=$4

case $layout in
    rows) extra=60 ;;
    columns) extra=90 ;;
    tiles) extra=20 ;;
    *) echo "no layout '$layout'" >&2; exit 2 ;;
esac
time_ms=$((2000 / threads + 25 * threads + (block - 64) * (block - 64) / 16 + extra + seed % 5))
memory_mb=$((40 * threads + block))
echo "{\"time_ms\": $time_ms, \"memory_mb\": $memory_mb}"
