# Draws prompts.svg from prompts.dat: cd figures && gnuplot prompts.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,584 dynamic font 'sans-serif,13' name 'prompts' linewidth 1
set output 'prompts.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.88356
set bmargin at screen 0.55822
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'q4 against q8' at screen 0.00833,0.91438 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent, by prompt; the band is the verdict’s interval, +28 % [+23, +32]' at screen 0.98333,0.91438 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [0.2:64.8]
set yrange [-11.093036101724348:63.66953612898311]
set ytics 10 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set object 1 rectangle from graph 0, first 22.84606718456204 to graph 1, first 32.44530417840141 back fc rgb '#e6eaed' fs solid noborder
set arrow from graph 0, first 27.555418290951692 to graph 1, first 27.555418290951692 nohead back lc rgb '#1c2126' lw 1 dt 1
set arrow from graph 0, first 0 to graph 1, first 0 nohead back lc rgb '#5b6670' lw 1 dt '-'
set label '' at screen 0.01458,0.96918 point pt 7 ps 0.7 lc rgb '#0072b2'
set label 'code' at screen 0.02917,0.96918 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.23958,0.96918 point pt 5 ps 0.7 lc rgb '#d55e00'
set label 'prose' at screen 0.25417,0.96918 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'prompts.dat' index 0 using 1:2 with points pt 7 ps 0.65 lc rgb '#0072b2' title 'code', \
  'prompts.dat' index 1 using 1:2 with points pt 5 ps 0.65 lc rgb '#d55e00' title 'prose'

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.43836
set bmargin at screen 0.11301
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'q8-again against q8' at screen 0.00833,0.46918 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent, by prompt; the band is the verdict’s interval, +1.3 % [−0.4, +3.0]' at screen 0.98333,0.46918 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [0.2:64.8]
set yrange [-23.800835706921852:28.555044658025277]
set ytics 10 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set object 1 rectangle from graph 0, first -0.3745506244716752 to graph 1, first 2.972090190875636 back fc rgb '#e6eaed' fs solid noborder
set arrow from graph 0, first 1.2849483309510186 to graph 1, first 1.2849483309510186 nohead back lc rgb '#1c2126' lw 1 dt 1
set arrow from graph 0, first 0 to graph 1, first 0 nohead back lc rgb '#5b6670' lw 1 dt '-'
set xlabel 'prompts, sorted by their ratio' tc rgb '#5b6670'
plot 'prompts.dat' index 2 using 1:2 with points pt 7 ps 0.65 lc rgb '#0072b2' title 'code', \
  'prompts.dat' index 3 using 1:2 with points pt 5 ps 0.65 lc rgb '#d55e00' title 'prose'

unset multiplot
unset output
