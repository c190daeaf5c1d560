# Draws conditions.svg from conditions.dat: cd figures && gnuplot conditions.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,1160 dynamic font 'sans-serif,13' name 'conditions' linewidth 1
set output 'conditions.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.94655
set bmargin at screen 0.80862
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'GPU SM clock, MHz; whiskers: lowest and highest reading of the run' at screen 0.00833,0.96207 left font 'sans-serif,13' tc rgb '#5b6670'
set xrange [0.4:20.6]
set yrange [1962.75:1982.25]
set ytics 2 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set xtics 1
set grid ytics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 4.5, graph 0 to first 4.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 8.5, graph 0 to first 8.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 12.5, graph 0 to first 12.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 16.5, graph 0 to first 16.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set label '' at screen 0.01458,0.98448 point pt 7 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label 'without' at screen 0.02917,0.98448 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.23958,0.98448 point pt 5 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label 'with-100-hz' at screen 0.25417,0.98448 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'conditions.dat' index 0 using 1:3:(0):($4-$3) with vectors nohead lw 1 lc rgb '#0072b2' notitle, \
  'conditions.dat' index 0 using 1:2 with points pt 7 ps 0.8 lc rgb '#0072b2' title 'without', \
  'conditions.dat' index 1 using 1:3:(0):($4-$3) with vectors nohead lw 1 lc rgb '#d55e00' notitle, \
  'conditions.dat' index 1 using 1:2 with points pt 5 ps 0.8 lc rgb '#d55e00' title 'with-100-hz'

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.75862
set bmargin at screen 0.62069
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'GPU temperature, °C' at screen 0.00833,0.77414 left font 'sans-serif,13' tc rgb '#5b6670'
set xrange [0.4:20.6]
set yrange [43.99588235294117:45.66294117647059]
set ytics 0.2 format '%.1f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set xtics 1
set grid ytics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 4.5, graph 0 to first 4.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 8.5, graph 0 to first 8.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 12.5, graph 0 to first 12.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 16.5, graph 0 to first 16.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
plot 'conditions.dat' index 0 using 1:5 with points pt 7 ps 0.8 lc rgb '#0072b2' title 'without', \
  'conditions.dat' index 1 using 1:5 with points pt 5 ps 0.8 lc rgb '#d55e00' title 'with-100-hz'

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.57069
set bmargin at screen 0.43276
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'GPU power, W' at screen 0.00833,0.58621 left font 'sans-serif,13' tc rgb '#5b6670'
set xrange [0.4:20.6]
set yrange [597.5980565476193:609.8733839285713]
set ytics 2 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set xtics 1
set grid ytics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 4.5, graph 0 to first 4.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 8.5, graph 0 to first 8.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 12.5, graph 0 to first 12.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 16.5, graph 0 to first 16.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
plot 'conditions.dat' index 0 using 1:6 with points pt 7 ps 0.8 lc rgb '#0072b2' title 'without', \
  'conditions.dat' index 1 using 1:6 with points pt 5 ps 0.8 lc rgb '#d55e00' title 'with-100-hz'

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.38276
set bmargin at screen 0.24483
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'cores used by others' at screen 0.00833,0.39828 left font 'sans-serif,13' tc rgb '#5b6670'
set xrange [0.4:20.6]
set yrange [0:0.03358920989801463]
set ytics 0.005 format '%.3f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set xtics 1
set grid ytics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 4.5, graph 0 to first 4.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 8.5, graph 0 to first 8.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 12.5, graph 0 to first 12.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 16.5, graph 0 to first 16.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
plot 'conditions.dat' index 0 using 1:7 with points pt 7 ps 0.8 lc rgb '#0072b2' title 'without', \
  'conditions.dat' index 1 using 1:7 with points pt 5 ps 0.8 lc rgb '#d55e00' title 'with-100-hz'

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.19483
set bmargin at screen 0.05690
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'time in which a task waited for a core, %' at screen 0.00833,0.21034 left font 'sans-serif,13' tc rgb '#5b6670'
set xrange [0.4:20.6]
set yrange [0:0.20422434593542887]
set ytics 0.02 format '%.2f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set xtics 1
set grid ytics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 4.5, graph 0 to first 4.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 8.5, graph 0 to first 8.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 12.5, graph 0 to first 12.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 16.5, graph 0 to first 16.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set xlabel 'run, in order of start' tc rgb '#5b6670'
plot 'conditions.dat' index 0 using 1:8 with points pt 7 ps 0.8 lc rgb '#0072b2' title 'without', \
  'conditions.dat' index 1 using 1:8 with points pt 5 ps 0.8 lc rgb '#d55e00' title 'with-100-hz'

unset multiplot
unset output
