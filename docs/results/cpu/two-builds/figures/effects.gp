# Draws effects.svg from effects.dat: cd figures && gnuplot effects.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,201 dynamic font 'sans-serif,13' name 'effects' linewidth 1
set output 'effects.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.83085
set bmargin at screen 0.20896
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'O1 against O2' at screen 0.00833,0.92040 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; the line is no difference' at screen 0.76667,0.92040 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-1.913426528475749:2.00656149287933]
set xtics 0.5 format '%.1f'
set yrange [-0.5:4.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 0, graph 0 to first 0, graph 1 nohead back lc rgb '#5b6670' lw 1.5 dt 1
set label 'this suite, any launch' at screen 0.00833, first 4 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'regression, degree 3' at screen 0.37708, first 4 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+0.0 % [−1.6, +1.7]' at screen 0.78333, first 4 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 3 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'percentile' at screen 0.37708, first 3 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+0.0 % [−0.9, +0.9]' at screen 0.78333, first 3 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'BCa' at screen 0.37708, first 2 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+0.0 % [−1.0, +0.8]' at screen 0.78333, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'prompts like these, any launch' at screen 0.00833, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'two-way' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+0.0 % [−1.6, +1.7]' at screen 0.78333, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'check: this suite, any launch' at screen 0.00833, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'block pairs' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+0.0 % [−1.1, +1.2]' at screen 0.78333, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'effects.dat' index 0 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#d55e00' title 'O1 against O2', \
  'effects.dat' index 0 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#d55e00' title 'O1 against O2', \
  'effects.dat' index 0 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#d55e00' title 'O1 against O2', \
  'effects.dat' index 0 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#d55e00' title 'O1 against O2'

unset multiplot
unset output
