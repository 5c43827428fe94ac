set -u
tar xzf target/gpu-pkgs.tgz -C /tmp
export PYTHONPATH=/tmp/gpu-pkgs VRAMFIT=$PWD/target/vramfit-gpu VRAMFIT_CUDNN=off HF_HUB_OFFLINE=1
chmod +x $VRAMFIT
if [ "$1" = blind ]; then
  timeout 230 python3 validation/sweep/measure_models.py --cases validation/sweep/blind.jsonl --out /tmp/blind-measured.jsonl --jobs 14 --seconds 170 --timeout 60 2>&1 | tail -4
  cp /tmp/blind-measured.jsonl $OUT/
  for i in $(seq 0 14); do timeout 150 python3 validation/sweep/compare.py --measured /tmp/blind-measured.jsonl --out /tmp/cmp-$i.jsonl --part $i/15 > /tmp/cmp-$i.log 2>&1 & done; wait
  cat /tmp/cmp-?.jsonl /tmp/cmp-??.jsonl > $OUT/blind-compared.jsonl; wc -l $OUT/blind-compared.jsonl
  for i in $(seq 0 14); do timeout 60 python3 validation/sweep/compare.py --measured validation/sweep/dev-measured.jsonl --out /tmp/dcmp-$i.jsonl --part $i/15 > /tmp/dcmp-$i.log 2>&1 & done; wait
  cat /tmp/dcmp-?.jsonl /tmp/dcmp-??.jsonl > $OUT/dev-compared.jsonl; wc -l $OUT/dev-compared.jsonl
fi
if [ "$1" = sweep ]; then
  for i in $(seq 0 15); do timeout $2 python3 validation/sweep/sweep.py --out /tmp/lines-$i.jsonl --part $i/16 --timeout 60 > /tmp/sweep-$i.log 2>&1 & done; wait
  cat /tmp/lines-?.jsonl /tmp/lines-??.jsonl > /tmp/lines.jsonl; wc -l /tmp/lines.jsonl; xz -9 -k /tmp/lines.jsonl; split -b 3900k /tmp/lines.jsonl.xz $OUT/lines.xz.
fi
