# Draws conditions.svg from conditions.dat: cd figures && gnuplot conditions.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,724 dynamic font 'sans-serif,13' name 'conditions' linewidth 1
set output 'conditions.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.91436
set bmargin at screen 0.69337
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'CPU clock, MHz; whiskers: lowest and highest reading of the run' at screen 0.00833,0.93923 left font 'sans-serif,13' tc rgb '#5b6670'
set xrange [0.4:36.6]
set yrange [2595.7125846999998:2596.4914153]
set ytics 0.1 format '%.1f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set grid ytics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 6.5, graph 0 to first 6.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 12.5, graph 0 to first 12.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 18.5, graph 0 to first 18.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 24.5, graph 0 to first 24.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 30.5, graph 0 to first 30.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set label '' at screen 0.01458,0.97514 point pt 7 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label 'q8' at screen 0.02917,0.97514 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.23958,0.97514 point pt 5 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label 'q4' at screen 0.25417,0.97514 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.46458,0.97514 point pt 9 ps 0.8 lw 1.2 lc rgb '#009e73'
set label 'q8-again' at screen 0.47917,0.97514 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'conditions.dat' index 0 using 1:3:(0):($4-$3) with vectors nohead lw 1 lc rgb '#0072b2' notitle, \
  'conditions.dat' index 0 using 1:2 with points pt 7 ps 0.8 lc rgb '#0072b2' title 'q8', \
  'conditions.dat' index 1 using 1:3:(0):($4-$3) with vectors nohead lw 1 lc rgb '#d55e00' notitle, \
  'conditions.dat' index 1 using 1:2 with points pt 5 ps 0.8 lc rgb '#d55e00' title 'q4', \
  'conditions.dat' index 2 using 1:3:(0):($4-$3) with vectors nohead lw 1 lc rgb '#009e73' notitle, \
  'conditions.dat' index 2 using 1:2 with points pt 9 ps 0.8 lc rgb '#009e73' title 'q8-again'

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.61326
set bmargin at screen 0.39227
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'cores used by others' at screen 0.00833,0.63812 left font 'sans-serif,13' tc rgb '#5b6670'
set xrange [0.4:36.6]
set yrange [0:0.014591812330425074]
set ytics 0.002 format '%.3f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set grid ytics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 6.5, graph 0 to first 6.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 12.5, graph 0 to first 12.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 18.5, graph 0 to first 18.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 24.5, graph 0 to first 24.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 30.5, graph 0 to first 30.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
plot 'conditions.dat' index 0 using 1:7 with points pt 7 ps 0.8 lc rgb '#0072b2' title 'q8', \
  'conditions.dat' index 1 using 1:7 with points pt 5 ps 0.8 lc rgb '#d55e00' title 'q4', \
  'conditions.dat' index 2 using 1:7 with points pt 9 ps 0.8 lc rgb '#009e73' title 'q8-again'

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.31215
set bmargin at screen 0.09116
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'time in which a task waited for a core, %' at screen 0.00833,0.33702 left font 'sans-serif,13' tc rgb '#5b6670'
set xrange [0.4:36.6]
set yrange [0:13.893136074339093]
set ytics 2 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set grid ytics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 6.5, graph 0 to first 6.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 12.5, graph 0 to first 12.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 18.5, graph 0 to first 18.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 24.5, graph 0 to first 24.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 30.5, graph 0 to first 30.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set xlabel 'run, in order of start' tc rgb '#5b6670'
plot 'conditions.dat' index 0 using 1:8 with points pt 7 ps 0.8 lc rgb '#0072b2' title 'q8', \
  'conditions.dat' index 1 using 1:8 with points pt 5 ps 0.8 lc rgb '#d55e00' title 'q4', \
  'conditions.dat' index 2 using 1:8 with points pt 9 ps 0.8 lc rgb '#009e73' title 'q8-again'

unset multiplot
unset output
