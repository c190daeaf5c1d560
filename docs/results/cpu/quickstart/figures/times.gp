# Draws times.svg from times.dat: cd figures && gnuplot times.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,374 dynamic font 'sans-serif,13' name 'times' linewidth 1
set output 'times.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.15625
set rmargin at screen 0.98333
set tmargin at screen 0.61497
set bmargin at screen 0.16578
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set object rectangle from screen 0.01042,0.94652 to screen 0.02292,0.97861 front fs solid 1.0 noborder fc rgb '#0072b2'
set label '1' at screen 0.03125,0.96257 left font 'sans-serif:Bold,12' tc rgb '#5b6670'
set label 'layers.*.mlp.gate_proj.weight' at screen 0.04792,0.96257 left font 'sans-serif,12' tc rgb '#1c2126'
set object rectangle from screen 0.01042,0.89037 to screen 0.02292,0.92246 front fs solid 1.0 noborder fc rgb '#d55e00'
set label '2' at screen 0.03125,0.90642 left font 'sans-serif:Bold,12' tc rgb '#5b6670'
set label 'layers.*.linear_attn' at screen 0.04792,0.90642 left font 'sans-serif,12' tc rgb '#1c2126'
set object rectangle from screen 0.01042,0.83422 to screen 0.02292,0.86631 front fs solid 1.0 noborder fc rgb '#009e73'
set label '3' at screen 0.03125,0.85027 left font 'sans-serif:Bold,12' tc rgb '#5b6670'
set label 'layers.*.linear_attn.in_proj_qkv.weight' at screen 0.04792,0.85027 left font 'sans-serif,12' tc rgb '#1c2126'
set object rectangle from screen 0.01042,0.77807 to screen 0.02292,0.81016 front fs solid 1.0 noborder fc rgb '#cc79a7'
set label '4' at screen 0.03125,0.79412 left font 'sans-serif:Bold,12' tc rgb '#5b6670'
set label 'layers.*.mlp.down_proj.weight' at screen 0.04792,0.79412 left font 'sans-serif,12' tc rgb '#1c2126'
set object rectangle from screen 0.01042,0.72193 to screen 0.02292,0.75401 front fs solid 1.0 noborder fc rgb '#a08300'
set label '5' at screen 0.03125,0.73797 left font 'sans-serif:Bold,12' tc rgb '#5b6670'
set label 'layers.*.linear_attn.out_proj.weight' at screen 0.04792,0.73797 left font 'sans-serif,12' tc rgb '#1c2126'
set object rectangle from screen 0.01042,0.66578 to screen 0.02292,0.69786 front fs solid 1.0 noborder fc rgb '#56b4e9'
set label '6' at screen 0.03125,0.68182 left font 'sans-serif:Bold,12' tc rgb '#5b6670'
set label 'lm_head.weight' at screen 0.04792,0.68182 left font 'sans-serif,12' tc rgb '#1c2126'
set object rectangle from screen 0.50208,0.94652 to screen 0.51458,0.97861 front fs solid 1.0 noborder fc rgb '#6b4fa0'
set label '7' at screen 0.52292,0.96257 left font 'sans-serif:Bold,12' tc rgb '#5b6670'
set label 'layers.*.self_attn.q_proj.weight' at screen 0.53958,0.96257 left font 'sans-serif,12' tc rgb '#1c2126'
set object rectangle from screen 0.50208,0.89037 to screen 0.51458,0.92246 front fs solid 1.0 noborder fc rgb '#7d4b32'
set label '8' at screen 0.52292,0.90642 left font 'sans-serif:Bold,12' tc rgb '#5b6670'
set label 'attention  layers.*.self_attn' at screen 0.53958,0.90642 left font 'sans-serif,12' tc rgb '#1c2126'
set object rectangle from screen 0.50208,0.83422 to screen 0.51458,0.86631 front fs solid 1.0 noborder fc rgb '#8b959e'
set label '+' at screen 0.52292,0.85027 left font 'sans-serif:Bold,12' tc rgb '#5b6670'
set label '6 others' at screen 0.53958,0.85027 left font 'sans-serif,12' tc rgb '#1c2126'
set object rectangle from screen 0.50208,0.77807 to screen 0.51458,0.81016 front fs solid 1.0 noborder fc rgb '#dfe4e8'
set label 'i' at screen 0.52292,0.79412 left font 'sans-serif:Bold,12' tc rgb '#5b6670'
set label 'idle: nothing runs between two kernels or ops' at screen 0.53958,0.79412 left font 'sans-serif,12' tc rgb '#1c2126'
set object rectangle from screen 0.50208,0.72193 to screen 0.51458,0.75401 front fs solid 1.0 noborder fc rgb '#b9a6a0'
set label 'h' at screen 0.52292,0.73797 left font 'sans-serif:Bold,12' tc rgb '#5b6670'
set label 'host: what of the timed round the profile does not cover' at screen 0.53958,0.73797 left font 'sans-serif,12' tc rgb '#1c2126'
set xrange [0:141.40194895788142]
set xtics 20 format '%.0f'
set yrange [0:3]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set xlabel 'microseconds a round' tc rgb '#5b6670'
set style fill solid 1.0 border lc rgb '#fffffe'
set label '1' at screen 0.23756,0.58214 center font 'sans-serif,12' tc rgb '#5b6670'
set label '1' at screen 0.21019,0.43241 center font 'sans-serif,12' tc rgb '#5b6670'
set label '1' at screen 0.23765,0.28267 center font 'sans-serif,12' tc rgb '#5b6670'
set label '2' at screen 0.38299,0.58214 center font 'sans-serif,12' tc rgb '#5b6670'
set label '2' at screen 0.32694,0.43241 center font 'sans-serif,12' tc rgb '#5b6670'
set label '2' at screen 0.38341,0.28267 center font 'sans-serif,12' tc rgb '#5b6670'
set label '3' at screen 0.50956,0.58214 center font 'sans-serif,12' tc rgb '#5b6670'
set label '3' at screen 0.43176,0.43241 center font 'sans-serif,12' tc rgb '#5b6670'
set label '3' at screen 0.51027,0.28267 center font 'sans-serif,12' tc rgb '#5b6670'
set label '4' at screen 0.61329,0.58214 center font 'sans-serif,12' tc rgb '#5b6670'
set label '4' at screen 0.50330,0.43241 center font 'sans-serif,12' tc rgb '#5b6670'
set label '4' at screen 0.61441,0.28267 center font 'sans-serif,12' tc rgb '#5b6670'
set label '5' at screen 0.67984,0.58214 center font 'sans-serif,12' tc rgb '#5b6670'
set label '5' at screen 0.55203,0.43241 center font 'sans-serif,12' tc rgb '#5b6670'
set label '5' at screen 0.68136,0.28267 center font 'sans-serif,12' tc rgb '#5b6670'
set label '6' at screen 0.72529,0.58214 center font 'sans-serif,12' tc rgb '#5b6670'
set label '6' at screen 0.58337,0.43241 center font 'sans-serif,12' tc rgb '#5b6670'
set label '6' at screen 0.72712,0.28267 center font 'sans-serif,12' tc rgb '#5b6670'
set label '7' at screen 0.76377,0.58214 center font 'sans-serif,12' tc rgb '#5b6670'
set label '7' at screen 0.60768,0.43241 center font 'sans-serif,12' tc rgb '#5b6670'
set label '7' at screen 0.76591,0.28267 center font 'sans-serif,12' tc rgb '#5b6670'
set label '8' at screen 0.79953,0.58214 center font 'sans-serif,12' tc rgb '#5b6670'
set label '8' at screen 0.63696,0.43241 center font 'sans-serif,12' tc rgb '#5b6670'
set label '8' at screen 0.80172,0.28267 center font 'sans-serif,12' tc rgb '#5b6670'
set label '+' at screen 0.83694,0.58214 center font 'sans-serif,12' tc rgb '#5b6670'
set label '+' at screen 0.67194,0.43241 center font 'sans-serif,12' tc rgb '#5b6670'
set label '+' at screen 0.83923,0.28267 center font 'sans-serif,12' tc rgb '#5b6670'
set label 'i' at screen 0.91087,0.58214 center font 'sans-serif,12' tc rgb '#5b6670'
set label 'i' at screen 0.74342,0.43241 center font 'sans-serif,12' tc rgb '#5b6670'
set label 'i' at screen 0.91320,0.28267 center font 'sans-serif,12' tc rgb '#5b6670'
set label 'h' at screen 0.97214,0.52064 left font 'sans-serif,12' tc rgb '#5b6670'
set label 'h' at screen 0.80436,0.37091 left font 'sans-serif,12' tc rgb '#5b6670'
set label 'h' at screen 0.97441,0.22118 left font 'sans-serif,12' tc rgb '#5b6670'
set label 'q8' at screen 0.00833,0.54203 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label '136.88 µs' at screen 0.00833,0.49658 left font 'sans-serif,12' tc rgb '#5b6670'
set arrow from first 136.88107148116364, first 2.06 to first 136.88107148116364, first 2.68 nohead front lc rgb '#1c2126' lw 3
set label 'q4' at screen 0.00833,0.39230 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label '107.59 µs' at screen 0.00833,0.34684 left font 'sans-serif,12' tc rgb '#5b6670'
set arrow from first 107.5857009287731, first 1.06 to first 107.5857009287731, first 1.6800000000000002 nohead front lc rgb '#1c2126' lw 3
set label 'q8-again' at screen 0.00833,0.24257 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label '135.23 µs' at screen 0.00833,0.19711 left font 'sans-serif,12' tc rgb '#5b6670'
set arrow from first 135.2305138401559, first 0.06 to first 135.2305138401559, first 0.68 nohead front lc rgb '#1c2126' lw 3
plot 'times.dat' index 0 using (1?($2+$3)/2:NaN):(($5+$6)/2):2:3:5:6 with boxxyerror lc rgb '#0072b2' title 'layers.*.mlp.gate_proj.weight', \
  'times.dat' index 1 using (1?($2+$3)/2:NaN):(($5+$6)/2):2:3:5:6 with boxxyerror lc rgb '#d55e00' title 'layers.*.linear_attn', \
  'times.dat' index 2 using (1?($2+$3)/2:NaN):(($5+$6)/2):2:3:5:6 with boxxyerror lc rgb '#009e73' title 'layers.*.linear_attn.in_proj_qkv.weight', \
  'times.dat' index 3 using (1?($2+$3)/2:NaN):(($5+$6)/2):2:3:5:6 with boxxyerror lc rgb '#cc79a7' title 'layers.*.mlp.down_proj.weight', \
  'times.dat' index 4 using (1?($2+$3)/2:NaN):(($5+$6)/2):2:3:5:6 with boxxyerror lc rgb '#a08300' title 'layers.*.linear_attn.out_proj.weight', \
  'times.dat' index 5 using (1?($2+$3)/2:NaN):(($5+$6)/2):2:3:5:6 with boxxyerror lc rgb '#56b4e9' title 'lm_head.weight', \
  'times.dat' index 6 using (1?($2+$3)/2:NaN):(($5+$6)/2):2:3:5:6 with boxxyerror lc rgb '#6b4fa0' title 'layers.*.self_attn.q_proj.weight', \
  'times.dat' index 7 using (1?($2+$3)/2:NaN):(($5+$6)/2):2:3:5:6 with boxxyerror lc rgb '#7d4b32' title 'attention  layers.*.self_attn', \
  'times.dat' index 8 using (1?($2+$3)/2:NaN):(($5+$6)/2):2:3:5:6 with boxxyerror lc rgb '#8b959e' title '6 others', \
  'times.dat' index 9 using (1?($2+$3)/2:NaN):(($5+$6)/2):2:3:5:6 with boxxyerror lc rgb '#dfe4e8' title 'idle: nothing runs between two kernels or ops', \
  'times.dat' index 10 using ($4<0?($2+$3)/2:NaN):(($5+$6)/2):3:2:5:6 with boxxyerror fs empty border lc rgb '#1c2126' lc rgb '#1c2126' lw 1.2 title 'host: what of the timed round the profile does not cover', \
  'times.dat' index 10 using ($4>=0?($2+$3)/2:NaN):(($5+$6)/2):2:3:5:6 with boxxyerror lc rgb '#b9a6a0' title 'host: what of the timed round the profile does not cover'

unset multiplot
unset output
