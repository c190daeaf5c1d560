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
set xrange [0.4:20.6]
set yrange [201.81146010730706:202.97785242842298]
set ytics 0.2 format '%.1f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set xtics 1
set grid ytics lc rgb '#e6eaed' lw 1 dt 1 back
set label '' at first 1, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label '' at first 2, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label '' at first 5, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label '' at first 6, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label '' at first 9, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label '' at first 10, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label '' at first 13, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label '' at first 14, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label '' at first 17, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label '' at first 18, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2'
set arrow from first 4.5, graph 0 to first 4.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 8.5, graph 0 to first 8.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 12.5, graph 0 to first 12.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set arrow from first 16.5, graph 0 to first 16.5, graph 1 nohead back lc rgb '#c8cfd5' lw 1.2 dt '-'
set label '' at screen 0.01458,0.94340 point pt 7 ps 0.8 lw 1.2 lc rgb '#0072b2'
set label 'without' at screen 0.02917,0.94340 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.23958,0.94340 point pt 5 ps 0.8 lw 1.2 lc rgb '#d55e00'
set label 'with-100-hz' at screen 0.25417,0.94340 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.46458,0.94340 point pt 2 ps 0.8 lw 1.2 lc rgb '#5b6670'
set label 'warm-up or not counted' at screen 0.47917,0.94340 left font 'sans-serif,13' tc rgb '#1c2126'
set xlabel 'run, in order of start' tc rgb '#5b6670'
plot 'runs.dat' index 0 using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '#0072b2' title 'without, fitted', \
  'runs.dat' index 0 using ($5==1?$1:NaN):2 with points pt 7 ps 0.8 lc rgb '#0072b2' title 'without', \
  'runs.dat' index 0 using ($5==0?$1:NaN):($2>202.97785242842298?202.97785242842298:$2>201.81146010730706?$2:201.81146010730706) with points pt 2 ps 0.8 lw 1.2 lc rgb '#0072b2' title 'without, not counted', \
  'runs.dat' index 1 using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '#d55e00' title 'with-100-hz, fitted', \
  'runs.dat' index 1 using ($5==1?$1:NaN):2 with points pt 5 ps 0.8 lc rgb '#d55e00' title 'with-100-hz', \
  'runs.dat' index 1 using ($5==0?$1:NaN):($2>202.97785242842298?202.97785242842298:$2>201.81146010730706?$2:201.81146010730706) with points pt 2 ps 0.8 lw 1.2 lc rgb '#d55e00' title 'with-100-hz, not counted'

unset multiplot
unset output
