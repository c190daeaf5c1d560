# Draws runs.svg from runs.dat: cd figures && gnuplot runs.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,598 dynamic font 'sans-serif,13' name 'runs' linewidth 1
set output 'runs.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.89632
set bmargin at screen 0.57860
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'decode speed, tok/s' at screen 0.00833,0.92977 left font 'sans-serif,13' tc rgb '#5b6670'
set xrange [0.4:17.6]
set yrange [10405.961793414228:11031.830719416083]
set ytics 100 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set xtics 1
set grid ytics lc rgb '#e6eaed' lw 1 dt 1 back
set label '' at first 1, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00'
set arrow from first 9.5, graph 0 to first 9.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set label '' at screen 0.01458,0.96990 point pt 7 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label 'O2' at screen 0.02917,0.96990 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.23958,0.96990 point pt 5 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label 'O1' at screen 0.25417,0.96990 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.46458,0.96990 point pt 2 ps 0.8 lw 1.2 lc rgb '#5b6670'
set label 'warm-up or not counted' at screen 0.47917,0.96990 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'runs.dat' index 0 using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '#0072b2' title 'O2, fitted', \
  'runs.dat' index 0 using ($5==1?$1:NaN):2 with points pt 7 ps 0.8 lc rgb '#0072b2' title 'O2', \
  'runs.dat' index 0 using ($5==0?$1:NaN):($2>11031.830719416083?11031.830719416083:$2>10405.961793414228?$2:10405.961793414228) with points pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2' title 'O2, not counted', \
  'runs.dat' index 1 using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '#d55e00' title 'O1, fitted', \
  'runs.dat' index 1 using ($5==1?$1:NaN):2 with points pt 5 ps 0.8 lc rgb '#d55e00' title 'O1', \
  'runs.dat' index 1 using ($5==0?$1:NaN):($2>11031.830719416083?11031.830719416083:$2>10405.961793414228?$2:10405.961793414228) with points pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00' title 'O1, not counted'

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.46154
set bmargin at screen 0.11037
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'deviation from the arm’s level, percent; the curve is the fitted drift' at screen 0.00833,0.49498 left font 'sans-serif,13' tc rgb '#5b6670'
set xrange [0.4:17.6]
set yrange [-3.007473508934913:2.826163937590049]
set ytics 1 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set xtics 1
set grid ytics lc rgb '#e6eaed' lw 1 dt 1 back
set label '' at first 1, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00'
set arrow from first 9.5, graph 0 to first 9.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from graph 0, first 0 to graph 1, first 0 nohead back lc rgb '#5b6670' lw 1 dt 1
set xlabel 'run, in order of start' tc rgb '#5b6670'
plot 'runs.dat' index 2 using 1:2 smooth csplines with lines lw 1.8 lc rgb '#1c2126' title 'fitted drift', \
  'runs.dat' index 0 using ($5==1?$1:NaN):4 with points pt 7 ps 0.8 lc rgb '#0072b2' title 'O2', \
  'runs.dat' index 0 using ($5==0?$1:NaN):($4>2.826163937590049?2.826163937590049:$4>-3.007473508934913?$4:-3.007473508934913) with points pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2' title 'O2, not counted', \
  'runs.dat' index 1 using ($5==1?$1:NaN):4 with points pt 5 ps 0.8 lc rgb '#d55e00' title 'O1', \
  'runs.dat' index 1 using ($5==0?$1:NaN):($4>2.826163937590049?2.826163937590049:$4>-3.007473508934913?$4:-3.007473508934913) with points pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00' title 'O1, not counted'

unset multiplot
unset output
