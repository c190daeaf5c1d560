# Draws runs.svg from runs.dat: cd figures && gnuplot runs.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,342 dynamic font 'sans-serif,13' name 'runs' linewidth 1
set output 'runs.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.74854
set bmargin at screen 0.19298
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'decode speed, tok/s' at screen 0.00833,0.80702 left font 'sans-serif,13' tc rgb '#5b6670'
set xrange [0.4:25.6]
set yrange [925.1777156156144:3878.3953281665526]
set ytics 500 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set xtics 1
set grid ytics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 5.5, graph 0 to first 5.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 10.5, graph 0 to first 10.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 15.5, graph 0 to first 15.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 20.5, graph 0 to first 20.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set label '' at screen 0.01458,0.94737 point pt 7 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label 'plain' at screen 0.02917,0.94737 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.23958,0.94737 point pt 5 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label 'chain-16' at screen 0.25417,0.94737 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.46458,0.94737 point pt 9 ps 0.8 lw 1.2 lc rgb '#009e73'
set label 'tree-8' at screen 0.47917,0.94737 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.68958,0.94737 point pt 13 ps 0.8 lw 1.2 lc rgb '#cc79a7'
set label 'tree-16' at screen 0.70417,0.94737 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.01458,0.87719 point pt 11 ps 0.8 lw 1.2 lc rgb '#a08300'
set label 'tree-32' at screen 0.02917,0.87719 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.23958,0.87719 point pt 2 ps 0.8 lw 1.2 lc rgb '#5b6670'
set label 'warm-up or not counted' at screen 0.25417,0.87719 left font 'sans-serif,13' tc rgb '#1c2126'
set xlabel 'run, in order of start' tc rgb '#5b6670'
plot 'runs.dat' index 0 using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '#0072b2' title 'plain, fitted', \
  'runs.dat' index 0 using ($5==1?$1:NaN):2 with points pt 7 ps 0.8 lc rgb '#0072b2' title 'plain', \
  'runs.dat' index 0 using ($5==0?$1:NaN):($2>3878.3953281665526?3878.3953281665526:$2>925.1777156156144?$2:925.1777156156144) with points pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2' title 'plain, not counted', \
  'runs.dat' index 1 using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '#d55e00' title 'chain-16, fitted', \
  'runs.dat' index 1 using ($5==1?$1:NaN):2 with points pt 5 ps 0.8 lc rgb '#d55e00' title 'chain-16', \
  'runs.dat' index 1 using ($5==0?$1:NaN):($2>3878.3953281665526?3878.3953281665526:$2>925.1777156156144?$2:925.1777156156144) with points pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00' title 'chain-16, not counted', \
  'runs.dat' index 2 using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '#009e73' title 'tree-8, fitted', \
  'runs.dat' index 2 using ($5==1?$1:NaN):2 with points pt 9 ps 0.8 lc rgb '#009e73' title 'tree-8', \
  'runs.dat' index 2 using ($5==0?$1:NaN):($2>3878.3953281665526?3878.3953281665526:$2>925.1777156156144?$2:925.1777156156144) with points pt 2 ps 0.8 lw 1.2 lc rgb '#009e73' title 'tree-8, not counted', \
  'runs.dat' index 3 using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '#cc79a7' title 'tree-16, fitted', \
  'runs.dat' index 3 using ($5==1?$1:NaN):2 with points pt 13 ps 0.8 lc rgb '#cc79a7' title 'tree-16', \
  'runs.dat' index 3 using ($5==0?$1:NaN):($2>3878.3953281665526?3878.3953281665526:$2>925.1777156156144?$2:925.1777156156144) with points pt 2 ps 0.8 lw 1.2 lc rgb '#cc79a7' title 'tree-16, not counted', \
  'runs.dat' index 4 using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '#a08300' title 'tree-32, fitted', \
  'runs.dat' index 4 using ($5==1?$1:NaN):2 with points pt 11 ps 0.8 lc rgb '#a08300' title 'tree-32', \
  'runs.dat' index 4 using ($5==0?$1:NaN):($2>3878.3953281665526?3878.3953281665526:$2>925.1777156156144?$2:925.1777156156144) with points pt 2 ps 0.8 lw 1.2 lc rgb '#a08300' title 'tree-32, not counted'

unset multiplot
unset output
