# Draws effects.svg from effects.dat: cd figures && gnuplot effects.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,462 dynamic font 'sans-serif,13' name 'effects' linewidth 1
set output 'effects.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.92641
set bmargin at screen 0.81818
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'All arms against q8' at screen 0.00833,0.96537 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; one scale, the line is no difference' at screen 0.76667,0.96537 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-3.000139008701522:35.07089256263126]
set xtics 5 format '%.0f'
set yrange [-0.5:1.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 0, graph 0 to first 0, graph 1 nohead back lc rgb '#5b6670' lw 1.5 dt 1
set label 'q4' at screen 0.00833, first 1 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'better' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+28 % [+23, +32]' at screen 0.78333, first 1 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'q8-again' at screen 0.00833, first 0 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'inconclusive' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+1.3 % [−0.4, +3.0]' at screen 0.78333, first 0 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
plot 'effects.dat' index 0 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#1c2126' title 'All arms against q8', \
  'effects.dat' index 0 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#1c2126' title 'All arms against q8', \
  'effects.dat' index 0 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#1c2126' title 'All arms against q8', \
  'effects.dat' index 0 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#1c2126' title 'All arms against q8'

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.67100
set bmargin at screen 0.45455
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'q4 against q8' at screen 0.00833,0.70996 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; the line is no difference' at screen 0.76667,0.70996 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-2.5956243342721126:35.04092851267352]
set xtics 5 format '%.0f'
set yrange [-0.5:3.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 0, graph 0 to first 0, graph 1 nohead back lc rgb '#5b6670' lw 1.5 dt 1
set label 'this suite, any launch' at screen 0.00833, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'blocks, t' at screen 0.37708, first 3 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+28 % [+23, +32]' at screen 0.78333, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'percentile' at screen 0.37708, first 2 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+27.0 % [+24.5, +29.4]' at screen 0.78333, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'BCa' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+27.0 % [+24.3, +29.2]' at screen 0.78333, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'prompts like these, any launch' at screen 0.00833, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'two-way' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+28 % [+23, +32]' at screen 0.78333, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'effects.dat' index 1 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#d55e00' title 'q4 against q8', \
  'effects.dat' index 1 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#d55e00' title 'q4 against q8', \
  'effects.dat' index 1 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#d55e00' title 'q4 against q8', \
  'effects.dat' index 1 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#d55e00' title 'q4 against q8'

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.30736
set bmargin at screen 0.09091
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'q8-again against q8' at screen 0.00833,0.34632 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; the line is no difference' at screen 0.76667,0.34632 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-0.6422818896994601:3.239821456103421]
set xtics 0.5 format '%.1f'
set yrange [-0.5:3.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 0, graph 0 to first 0, graph 1 nohead back lc rgb '#5b6670' lw 1.5 dt 1
set label 'this suite, any launch' at screen 0.00833, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'blocks, t' at screen 0.37708, first 3 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+1.3 % [−0.4, +3.0]' at screen 0.78333, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'percentile' at screen 0.37708, first 2 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+1.26 % [−0.01, +2.69]' at screen 0.78333, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'BCa' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+1.26 % [+0.05, +2.79]' at screen 0.78333, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'prompts like these, any launch' at screen 0.00833, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'two-way' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+1.3 % [−0.2, +2.8]' at screen 0.78333, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'effects.dat' index 2 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#009e73' title 'q8-again against q8', \
  'effects.dat' index 2 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#009e73' title 'q8-again against q8', \
  'effects.dat' index 2 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#009e73' title 'q8-again against q8', \
  'effects.dat' index 2 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#009e73' title 'q8-again against q8'

unset multiplot
unset output
