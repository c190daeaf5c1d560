# Draws runs.svg from runs.dat: cd figures && gnuplot runs.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,318 dynamic font 'sans-serif,13' name 'runs' linewidth 1
set output 'runs.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.80503
set bmargin at screen 0.20755
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'decode speed, tok/s' at screen 0.00833,0.86792 left font 'sans-serif,13' tc rgb '#5b6670'
set xrange [0.4:36.6]
set yrange [4990.817921045379:10784.239853639529]
set ytics 1000 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set grid ytics lc rgb '#e6eaed' lw 1 dt 1 back
set label '' at first 1, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#009e73'
set label '' at first 2, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label '' at first 3, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label '' at first 7, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label '' at first 8, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label '' at first 9, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#009e73'
set label '' at first 13, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label '' at first 14, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label '' at first 15, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#009e73'
set label '' at first 19, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#009e73'
set label '' at first 20, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label '' at first 21, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label '' at first 25, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label '' at first 26, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#009e73'
set label '' at first 27, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label '' at first 31, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label '' at first 32, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#009e73'
set label '' at first 33, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2'
set arrow from first 6.5, graph 0 to first 6.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 12.5, graph 0 to first 12.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 18.5, graph 0 to first 18.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 24.5, graph 0 to first 24.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 30.5, graph 0 to first 30.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set label '' at screen 0.01458,0.94340 point pt 7 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label 'q8' at screen 0.02917,0.94340 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.23958,0.94340 point pt 5 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label 'q4' at screen 0.25417,0.94340 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.46458,0.94340 point pt 9 ps 0.8 lw 1.2 lc rgb '#009e73'
set label 'q8-again' at screen 0.47917,0.94340 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.68958,0.94340 point pt 2 ps 0.8 lw 1.2 lc rgb '#5b6670'
set label 'warm-up or not counted' at screen 0.70417,0.94340 left font 'sans-serif,13' tc rgb '#1c2126'
set xlabel 'run, in order of start' tc rgb '#5b6670'
plot 'runs.dat' index 0 using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '#0072b2' title 'q8, fitted', \
  'runs.dat' index 0 using ($5==1?$1:NaN):2 with points pt 7 ps 0.8 lc rgb '#0072b2' title 'q8', \
  'runs.dat' index 0 using ($5==0?$1:NaN):($2>10784.239853639529?10784.239853639529:$2>4990.817921045379?$2:4990.817921045379) with points pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2' title 'q8, not counted', \
  'runs.dat' index 1 using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '#d55e00' title 'q4, fitted', \
  'runs.dat' index 1 using ($5==1?$1:NaN):2 with points pt 5 ps 0.8 lc rgb '#d55e00' title 'q4', \
  'runs.dat' index 1 using ($5==0?$1:NaN):($2>10784.239853639529?10784.239853639529:$2>4990.817921045379?$2:4990.817921045379) with points pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00' title 'q4, not counted', \
  'runs.dat' index 2 using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '#009e73' title 'q8-again, fitted', \
  'runs.dat' index 2 using ($5==1?$1:NaN):2 with points pt 9 ps 0.8 lc rgb '#009e73' title 'q8-again', \
  'runs.dat' index 2 using ($5==0?$1:NaN):($2>10784.239853639529?10784.239853639529:$2>4990.817921045379?$2:4990.817921045379) with points pt 2 ps 0.8 lw 1.2 lc rgb '#009e73' title 'q8-again, not counted'

unset multiplot
unset output
