# Draws effects.svg from effects.dat: cd figures && gnuplot effects.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,655 dynamic font 'sans-serif,13' name 'effects' linewidth 1
set output 'effects.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.94809
set bmargin at screen 0.83359
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'All arms against exact' at screen 0.00833,0.97557 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; one scale, the line is no difference' at screen 0.76667,0.97557 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-6.921902833795568:1.624748318847397]
set xtics 1 format '%.0f'
set yrange [-0.5:2.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 0, graph 0 to first 0, graph 1 nohead back lc rgb '#5b6670' lw 1.5 dt 1
set label '7-bits' at screen 0.00833, first 2 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'inconclusive' at screen 0.37708, first 2 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−2.2 % [−4.9, +0.6]' at screen 0.78333, first 2 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label '6-bits' at screen 0.00833, first 1 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'worse' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−2.8 % [−4.4, −1.2]' at screen 0.78333, first 1 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label '5-bits' at screen 0.00833, first 0 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'inconclusive' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−3 % [−6, +1]' at screen 0.78333, first 0 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
plot 'effects.dat' index 0 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#1c2126' title 'All arms against exact', \
  'effects.dat' index 0 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#1c2126' title 'All arms against exact', \
  'effects.dat' index 0 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#1c2126' title 'All arms against exact', \
  'effects.dat' index 0 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#1c2126' title 'All arms against exact'

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.72977
set bmargin at screen 0.57710
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label '7-bits against exact' at screen 0.00833,0.75725 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; the line is no difference' at screen 0.76667,0.75725 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-5.32894328045787:1.000823131071332]
set xtics 1 format '%.0f'
set yrange [-0.5:3.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 0, graph 0 to first 0, graph 1 nohead back lc rgb '#5b6670' lw 1.5 dt 1
set label 'this suite, any launch' at screen 0.00833, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'blocks, t' at screen 0.37708, first 3 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−2.2 % [−4.9, +0.6]' at screen 0.78333, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'percentile' at screen 0.37708, first 2 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−2.3 % [−3.7, −0.9]' at screen 0.78333, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'BCa' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−2.3 % [−3.7, −1.0]' at screen 0.78333, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'prompts like these, any launch' at screen 0.00833, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'two-way' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−2.2 % [−4.9, +0.6]' at screen 0.78333, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'effects.dat' index 1 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#d55e00' title '7-bits against exact', \
  'effects.dat' index 1 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#d55e00' title '7-bits against exact', \
  'effects.dat' index 1 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#d55e00' title '7-bits against exact', \
  'effects.dat' index 1 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#d55e00' title '7-bits against exact'

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.47328
set bmargin at screen 0.32061
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label '6-bits against exact' at screen 0.00833,0.50076 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; the line is no difference' at screen 0.76667,0.50076 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-4.796168261491593:0.35527172307345134]
set xtics 1 format '%.0f'
set yrange [-0.5:3.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 0, graph 0 to first 0, graph 1 nohead back lc rgb '#5b6670' lw 1.5 dt 1
set label 'this suite, any launch' at screen 0.00833, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'blocks, t' at screen 0.37708, first 3 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−2.8 % [−4.4, −1.2]' at screen 0.78333, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'percentile' at screen 0.37708, first 2 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−2.8 % [−4.2, −1.4]' at screen 0.78333, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'BCa' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−2.8 % [−4.2, −1.4]' at screen 0.78333, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'prompts like these, any launch' at screen 0.00833, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'two-way' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−2.8 % [−4.4, −1.2]' at screen 0.78333, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'effects.dat' index 2 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#009e73' title '6-bits against exact', \
  'effects.dat' index 2 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#009e73' title '6-bits against exact', \
  'effects.dat' index 2 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#009e73' title '6-bits against exact', \
  'effects.dat' index 2 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#009e73' title '6-bits against exact'

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.21679
set bmargin at screen 0.06412
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label '5-bits against exact' at screen 0.00833,0.24427 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; the line is no difference' at screen 0.76667,0.24427 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-6.921902833795568:1.624748318847397]
set xtics 1 format '%.0f'
set yrange [-0.5:3.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 0, graph 0 to first 0, graph 1 nohead back lc rgb '#5b6670' lw 1.5 dt 1
set label 'this suite, any launch' at screen 0.00833, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'blocks, t' at screen 0.37708, first 3 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−3 % [−6, +1]' at screen 0.78333, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'percentile' at screen 0.37708, first 2 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−2.9 % [−4.6, −1.4]' at screen 0.78333, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'BCa' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−2.9 % [−5.0, −1.6]' at screen 0.78333, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'prompts like these, any launch' at screen 0.00833, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'two-way' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−3 % [−6, +1]' at screen 0.78333, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'effects.dat' index 3 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#cc79a7' title '5-bits against exact', \
  'effects.dat' index 3 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#cc79a7' title '5-bits against exact', \
  'effects.dat' index 3 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#cc79a7' title '5-bits against exact', \
  'effects.dat' index 3 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#cc79a7' title '5-bits against exact'

unset multiplot
unset output
