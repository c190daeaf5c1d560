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
set xrange [0.4:73.6]
set yrange [3362.735443239413:5516.10504927669]
set ytics 500 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set grid ytics lc rgb '#e6eaed' lw 1 dt 1 back
set label '' at first 1, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#009e73'
set arrow from first 19.5, graph 0 to first 19.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 37.5, graph 0 to first 37.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 55.5, graph 0 to first 55.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set label '' at screen 0.01458,0.96990 point pt 7 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label 'q8' at screen 0.02917,0.96990 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.23958,0.96990 point pt 5 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label 'q4' at screen 0.25417,0.96990 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.46458,0.96990 point pt 9 ps 0.8 lw 1.2 lc rgb '#009e73'
set label 'q8-again' at screen 0.47917,0.96990 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.68958,0.96990 point pt 2 ps 0.8 lw 1.2 lc rgb '#5b6670'
set label 'warm-up or not counted' at screen 0.70417,0.96990 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'runs.dat' index 0 using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '#0072b2' title 'q8, fitted', \
  'runs.dat' index 0 using ($5==1?$1:NaN):2 with points pt 7 ps 0.8 lc rgb '#0072b2' title 'q8', \
  'runs.dat' index 0 using ($5==0?$1:NaN):($2>5516.10504927669?5516.10504927669:$2>3362.735443239413?$2:3362.735443239413) with points pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2' title 'q8, not counted', \
  'runs.dat' index 1 using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '#d55e00' title 'q4, fitted', \
  'runs.dat' index 1 using ($5==1?$1:NaN):2 with points pt 5 ps 0.8 lc rgb '#d55e00' title 'q4', \
  'runs.dat' index 1 using ($5==0?$1:NaN):($2>5516.10504927669?5516.10504927669:$2>3362.735443239413?$2:3362.735443239413) with points pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00' title 'q4, not counted', \
  'runs.dat' index 2 using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '#009e73' title 'q8-again, fitted', \
  'runs.dat' index 2 using ($5==1?$1:NaN):2 with points pt 9 ps 0.8 lc rgb '#009e73' title 'q8-again', \
  'runs.dat' index 2 using ($5==0?$1:NaN):($2>5516.10504927669?5516.10504927669:$2>3362.735443239413?$2:3362.735443239413) with points pt 2 ps 0.8 lw 1.2 lc rgb '#009e73' title 'q8-again, not counted'

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
set xrange [0.4:73.6]
set yrange [-24.26543933192294:5.70128899944948]
set ytics 5 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set grid ytics lc rgb '#e6eaed' lw 1 dt 1 back
set label '' at first 1, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#009e73'
set arrow from first 19.5, graph 0 to first 19.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 37.5, graph 0 to first 37.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 55.5, graph 0 to first 55.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from graph 0, first 0 to graph 1, first 0 nohead back lc rgb '#5b6670' lw 1 dt 1
set xlabel 'run, in order of start' tc rgb '#5b6670'
plot 'runs.dat' index 3 using 1:2 smooth csplines with lines lw 1.8 lc rgb '#1c2126' title 'fitted drift', \
  'runs.dat' index 0 using ($5==1?$1:NaN):4 with points pt 7 ps 0.8 lc rgb '#0072b2' title 'q8', \
  'runs.dat' index 0 using ($5==0?$1:NaN):($4>5.70128899944948?5.70128899944948:$4>-24.26543933192294?$4:-24.26543933192294) with points pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2' title 'q8, not counted', \
  'runs.dat' index 1 using ($5==1?$1:NaN):4 with points pt 5 ps 0.8 lc rgb '#d55e00' title 'q4', \
  'runs.dat' index 1 using ($5==0?$1:NaN):($4>5.70128899944948?5.70128899944948:$4>-24.26543933192294?$4:-24.26543933192294) with points pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00' title 'q4, not counted', \
  'runs.dat' index 2 using ($5==1?$1:NaN):4 with points pt 9 ps 0.8 lc rgb '#009e73' title 'q8-again', \
  'runs.dat' index 2 using ($5==0?$1:NaN):($4>5.70128899944948?5.70128899944948:$4>-24.26543933192294?$4:-24.26543933192294) with points pt 2 ps 0.8 lw 1.2 lc rgb '#009e73' title 'q8-again, not counted'

unset multiplot
unset output
