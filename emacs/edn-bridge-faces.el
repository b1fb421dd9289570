;;; edn-bridge-faces.el --- All faces, with colours that can be read  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Each face has a class (must be read, muted, mark) and says where its
;; colours come from and which backgrounds it stands on.  Its colours are
;; computed from those of the theme: a colour is taken as it is if it has the
;; contrast that its class needs, else it is mixed with that of `default'
;; until it has.  The result is the face's `face-defface-spec', so that a
;; theme's or a user's own setting wins.
;;
;; They are computed again when a theme or a frame's `default' has changed.
;; Code keeps the colours of its language: `edn-bridge-faces-on' makes a face
;; of the package of any face, for text that stands on a given background.
;;
;; Contrast is that of WCAG 2.2, measured on the colours which the display
;; shows: a terminal with 16 colours shows the nearest of them.

;;; Code:

(require 'cl-lib)
(require 'color)
;; Its faces are taken from.
(require 'diff-mode)

(defconst edn-bridge-faces-contrasts '((read . 4.5) (muted . 3.0))
  "Contrast that text of each class has at least, as WCAG 2.2 measures it.
A theme whose `default' has less gives its text the contrast of that.")

(defvar edn-bridge-faces nil
  "The faces of the package, last defined first.")

;;;; Which displays there are

(defun edn-bridge-faces--display (frame)
  "Return the condition of a face spec that holds for the display of FRAME.
That is nil where it has no colours."
  (and (display-color-p frame)
       (> (display-color-cells frame) 2)
       `((type ,(if (display-graphic-p frame) 'graphic 'tty))
         (class color)
         (min-colors ,(display-color-cells frame))
         (background ,(frame-parameter frame 'background-mode)))))

;;;; Colours

(defvar edn-bridge-faces--luminances nil
  "While faces are computed for a frame, a hash table from colours.
Its values are what `edn-bridge-faces--luminance' returns.")

(defun edn-bridge-faces--luminance (color frame)
  "Return the relative luminance of what FRAME shows for COLOR.
It is as WCAG 2.2 defines it; nil where COLOR is not known."
  (let ((known (if edn-bridge-faces--luminances
                   (gethash color edn-bridge-faces--luminances 'new)
                 'new)))
    (if (not (eq known 'new))
        known
      (let* ((values (color-values color frame))
             (luminance
              (and values
                   (+ (* 0.2126 (edn-bridge-faces--linear (nth 0 values)))
                      (* 0.7152 (edn-bridge-faces--linear (nth 1 values)))
                      (* 0.0722 (edn-bridge-faces--linear (nth 2 values)))))))
        (when edn-bridge-faces--luminances
          (puthash color luminance edn-bridge-faces--luminances))
        luminance))))

(defun edn-bridge-faces--linear (value)
  "Return the light of VALUE, of 65535, of a colour."
  (let ((part (/ value 65535.0)))
    (if (<= part 0.04045)
        (/ part 12.92)
      (expt (/ (+ part 0.055) 1.055) 2.4))))

(defun edn-bridge-faces-contrast (one other frame)
  "Return the contrast between the colours ONE and OTHER on FRAME."
  (let ((a (edn-bridge-faces--luminance one frame))
        (b (edn-bridge-faces--luminance other frame)))
    (/ (+ (max a b) 0.05)
       (+ (min a b) 0.05))))

(defun edn-bridge-faces--mix (one other share)
  "Return ONE, a colour, with a SHARE of OTHER mixed in.
They are mixed as the theme means them, not as a display shows them."
  (apply #'color-rgb-to-hex
         (append (cl-mapcar (lambda (a b) (+ a (* share (- b a))))
                            (edn-bridge-faces--meant one)
                            (edn-bridge-faces--meant other))
                 '(2))))

(defun edn-bridge-faces--meant (color)
  "Return COLOR as a list of three numbers, wherever it is shown."
  (or (and (string-prefix-p "#" color)
           (ignore-errors
             (let ((digits (/ (1- (length color)) 3)))
               (cl-loop for from in (list 1 (1+ digits) (1+ (* 2 digits)))
                        collect (/ (string-to-number
                                    (substring color from (+ from digits)) 16)
                                   (float (1- (expt 16 digits))))))))
      (let ((rgb (or (color-values color)
                     (cdr (assoc (downcase color) color-name-rgb-alist)))))
        (mapcar (lambda (value) (/ value 65535.0)) rgb))))

(defun edn-bridge-faces--own (face attribute frame)
  "Return the colour that FACE has as ATTRIBUTE on FRAME, or nil."
  (let ((color (face-attribute face attribute frame t)))
    (and (stringp color)
         (not (string-prefix-p "unspecified" color))
         (edn-bridge-faces--luminance color frame)
         color)))

(defun edn-bridge-faces--inverse-p (face frame)
  "Return non-nil if FACE shows its background as its foreground on FRAME."
  (eq t (face-attribute face :inverse-video frame t)))

(defun edn-bridge-faces--foreground (face frame)
  "Return the foreground that FACE shows on FRAME, or nil if it has none."
  (if (edn-bridge-faces--inverse-p face frame)
      (or (edn-bridge-faces--own face :background frame)
          (edn-bridge-faces--default :background frame))
    (edn-bridge-faces--own face :foreground frame)))

(defun edn-bridge-faces--background (face frame)
  "Return the background that FACE shows on FRAME, or nil if it has none."
  (if (edn-bridge-faces--inverse-p face frame)
      (or (edn-bridge-faces--own face :foreground frame)
          (edn-bridge-faces--default :foreground frame))
    (edn-bridge-faces--own face :background frame)))

(defun edn-bridge-faces--default (attribute frame)
  "Return the ATTRIBUTE of `default' on FRAME.
A terminal that does not tell its colours is taken for black and white."
  (or (edn-bridge-faces--own 'default attribute frame)
      (if (eq (eq attribute :background)
              (eq (frame-parameter frame 'background-mode) 'dark))
          "#000000"
        "#ffffff")))

(defun edn-bridge-faces--figure (class frame)
  "Return the contrast that text of CLASS needs on FRAME."
  (min (alist-get class edn-bridge-faces-contrasts 1.0)
       (edn-bridge-faces-contrast (edn-bridge-faces--default :foreground frame)
                                  (edn-bridge-faces--default :background frame)
                                  frame)))

(defun edn-bridge-faces--legible (color backgrounds class frame)
  "Return COLOR, or one near it that has the contrast of CLASS on FRAME.
It has that on all of BACKGROUNDS.  COLOR is mixed with that of `default',
and at last with black or white, until it has.  Return nil where no colour
has it, on a light and on a dark background."
  (let* ((figure (edn-bridge-faces--figure class frame))
         (text (edn-bridge-faces--default :foreground frame))
         (worst (lambda (color)
                  (apply #'min
                         (mapcar (lambda (background)
                                   (edn-bridge-faces-contrast
                                    color background frame))
                                 backgrounds))))
         (end (if (> (funcall worst "#000000") (funcall worst "#ffffff"))
                  "#000000"
                "#ffffff")))
    (cl-loop for (from to) in `((,color ,text) (,text ,end))
             thereis
             (cl-loop for step from 0 to 10
                      for mixed = (if (= step 0)
                                      from
                                    (edn-bridge-faces--mix
                                     from to (/ step 10.0)))
                      when (>= (funcall worst mixed) figure)
                      return mixed))))

;;;; Backgrounds

(defun edn-bridge-faces-background (name frame)
  "Return the colour of the background NAME on FRAME.
NAME is `default', `raised' or a face; one that has no background of its own
stands on that of `default'."
  (or (if (eq name 'raised)
          (edn-bridge-faces--raised frame)
        (and (not (eq name 'default))
             (if (get name 'edn-bridge-faces)
                 (edn-bridge-faces--own-background name frame)
               (edn-bridge-faces--background name frame))))
      (edn-bridge-faces--default :background frame)))

(defun edn-bridge-faces--raised (frame)
  "Return the background on FRAME of what is set off from the text, or nil.
It is nil where the colours of `default' are not known, and where the
display has none that is near enough."
  (when-let ((background (edn-bridge-faces--own 'default :background frame))
             (raised (edn-bridge-faces--mix
                      background
                      (edn-bridge-faces--default :foreground frame) 0.06)))
    (and (< (edn-bridge-faces-contrast raised background frame) 1.5)
         raised)))

(defun edn-bridge-faces--tint (face share frame)
  "Return the background of FACE on FRAME.
Where it has only a foreground, that is a background with a SHARE of it; nil
where the display has too few colours."
  (or (edn-bridge-faces--background face frame)
      (when-let ((color (edn-bridge-faces--foreground face frame)))
        (and (> (display-color-cells frame) 16)
             (edn-bridge-faces--own 'default :background frame)
             (edn-bridge-faces--mix
              (edn-bridge-faces--default :background frame) color share)))))

(defun edn-bridge-faces--own-background (face frame)
  "Return the background that the recipe of FACE gives it on FRAME, or nil."
  (pcase (plist-get (get face 'edn-bridge-faces) :background)
    ('nil nil)
    ('raised (edn-bridge-faces--raised frame))
    (`(tint ,source ,share) (edn-bridge-faces--tint source share frame))
    (source (edn-bridge-faces--background source frame))))

;;;; Computing faces

(defconst edn-bridge-faces--own-keys
  '(:class :foreground :background :otherwise :on :over :mono
    :like)
  "Keys of a recipe that are no attributes of a face.")

(defun edn-bridge-faces--attributes (face frame)
  "Return the attributes of FACE, of the package, on FRAME."
  (let* ((recipe (get face 'edn-bridge-faces))
         (class (plist-get recipe :class))
         (background (edn-bridge-faces--own-background face frame))
         (source (or (plist-get recipe :foreground)
                     (and (not background) (plist-get recipe :otherwise))))
         (grounds (if background
                      (list background)
                    (mapcar (lambda (name)
                              (edn-bridge-faces-background name frame))
                            (or (plist-get recipe :on) '(default)))))
         (text (edn-bridge-faces--default :foreground frame))
         (color (and (not (eq class 'mark))
                     (or source background)
                     (edn-bridge-faces--legible
                      (or (and source (not (eq source 'default))
                               (edn-bridge-faces--foreground source frame))
                          text)
                      grounds class frame))))
    (append (and background (list :background background))
            ;; What is as `default' is leaves it to that.
            (and color
                 (not (and (equal color text)
                           (memq source '(nil default))
                           (not (plist-get recipe :over))))
                 (list :foreground color))
            (edn-bridge-faces--static face))))

(defun edn-bridge-faces--static (face)
  "Return the attributes of FACE that need no colours."
  (cl-loop with recipe = (get face 'edn-bridge-faces)
           for (key value) on recipe by #'cddr
           unless (memq key edn-bridge-faces--own-keys)
           append (list key value)
           when (eq key :mono)
           append '(:inherit edn-bridge-mono)
           when (eq key :like)
           append (edn-bridge-faces--shape value)))

(defun edn-bridge-faces--shape (face)
  "Return the weight and slant of FACE, as attributes."
  (cl-loop for key in '(:weight :slant)
           for value = (face-attribute face key nil t)
           unless (memq value '(unspecified normal))
           append (list key value)))

(defvar edn-bridge-faces--displays nil
  "Attributes of the faces, by displays: an alist.
Its keys are conditions of face specs, its values alists from faces.")

;; The attributes that FACE has are compared with those that its spec gives it.
(defun edn-bridge-faces--touched-p (face)
  "Return non-nil if the user has given FACE attributes from Lisp."
  (and (not (get face 'theme-face))
       (cl-some (lambda (frame)
                  (not (face-spec-match-p face (face-default-spec face)
                                          frame)))
                (frame-list))))

(defun edn-bridge-faces--apply (face)
  "Have FACE look as it was computed for the displays."
  (unless (edn-bridge-faces--touched-p face)
    (face-spec-set
     face
     (append
      (cl-loop for (display . faces) in edn-bridge-faces--displays
               collect (cons display (alist-get face faces)))
      (list (cons t (edn-bridge-faces--static face))))
     'face-defface-spec)))

(defun edn-bridge-faces--frames ()
  "Return an alist from the displays with colours to a frame on each."
  (let ((frames nil))
    (dolist (frame (cons (selected-frame) (frame-list)))
      (when-let ((display (edn-bridge-faces--display frame)))
        (unless (assoc display frames)
          (push (cons display frame) frames))))
    ;; A spec is looked at from the front, and a number of colours is the
    ;; least that its display has.
    (sort frames (lambda (one other)
                   (> (cadr (assq 'min-colors (car one)))
                      (cadr (assq 'min-colors (car other))))))))

(defun edn-bridge-faces-compute (&rest _)
  "Compute the colours of all faces for the themes and frames of now."
  (setq edn-bridge-faces--displays
        (mapcar (pcase-lambda (`(,display . ,frame))
                  (let ((edn-bridge-faces--luminances
                         (make-hash-table :test #'equal))
                        (gc-cons-threshold (max gc-cons-threshold 50000000)))
                    (cons display
                          (mapcar (lambda (face)
                                    (cons face (edn-bridge-faces--attributes
                                                face frame)))
                                  edn-bridge-faces))))
                (edn-bridge-faces--frames)))
  (edn-bridge-faces--compute-mono)
  (mapc #'edn-bridge-faces--apply edn-bridge-faces)
  (edn-bridge-faces--note))

(defun edn-bridge-faces--compute-mono ()
  "Have code in a font of one width, where that of `default' has many."
  (let ((frame (selected-frame)))
    (unless (edn-bridge-faces--touched-p 'edn-bridge-mono)
      (face-spec-set
       'edn-bridge-mono
       (list (cons t (and (edn-bridge-faces--proportional-p frame)
                          (list :family (face-attribute 'fixed-pitch :family
                                                        frame 'default)))))
       'face-defface-spec))))

(defun edn-bridge-faces--proportional-p (frame)
  "Return non-nil if the characters of `default' on FRAME differ in width."
  (and (display-graphic-p frame)
       (let ((font (face-attribute 'default :font frame)))
         (and (fontp font 'font-object)
              (let ((glyphs (append (font-get-glyphs font 0 2 "iM") nil)))
                (and (nth 0 glyphs) (nth 1 glyphs)
                     (/= (aref (nth 0 glyphs) 4) (aref (nth 1 glyphs) 4))))))))

;;;; When they are computed

(defun edn-bridge-faces--look (frame)
  "Return what the colours of FRAME depend on, as far as is seen at once."
  (mapcar (lambda (attribute) (face-attribute 'default attribute frame))
          '(:foreground :background :family)))

(defun edn-bridge-faces--same-look-p (frame look)
  "Return non-nil if FRAME has LOOK; this is asked at each redisplay."
  (and look
       (equal (face-attribute 'default :foreground frame) (nth 0 look))
       (equal (face-attribute 'default :background frame) (nth 1 look))
       (equal (face-attribute 'default :family frame) (nth 2 look))))

(defun edn-bridge-faces--note ()
  "Note for which look of the frames the faces were computed."
  (dolist (frame (frame-list))
    (set-frame-parameter frame 'edn-bridge-faces
                         (edn-bridge-faces--look frame))))

(defun edn-bridge-faces-refresh (&optional window-or-frame)
  "Compute the colours again if the `default' of WINDOW-OR-FRAME has changed.
Without it, that of the selected frame is looked at."
  (let* ((frame (if (windowp window-or-frame)
                    (window-frame window-or-frame)
                  (or window-or-frame (selected-frame))))
         (noted (frame-parameter frame 'edn-bridge-faces)))
    (unless (edn-bridge-faces--same-look-p frame noted)
      (if (and (not noted)
               (cl-some (lambda (other)
                          (and (edn-bridge-faces--same-look-p
                                frame (frame-parameter other 'edn-bridge-faces))
                               (equal (edn-bridge-faces--display frame)
                                      (edn-bridge-faces--display other))))
                        (frame-list)))
          ;; A new frame like another, such as one for completion.
          (set-frame-parameter frame 'edn-bridge-faces
                               (edn-bridge-faces--look frame))
        (edn-bridge-faces-compute)))))

(defun edn-bridge-faces-setup ()
  "Have the colours right in the current buffer, whatever its frame becomes.
Its code has a font of one width, also in `variable-pitch-mode'."
  (add-hook 'pre-redisplay-functions #'edn-bridge-faces-refresh nil t)
  (add-hook 'buffer-face-mode-hook #'edn-bridge-faces--remap-mono nil t))

(defvar-local edn-bridge-faces--mono-cookie nil
  "How the font of code is set for this buffer alone, or nil.")

(defvar buffer-face-mode)

(defun edn-bridge-faces--remap-mono ()
  "Have the code of this buffer in a font of one width, if its text is not."
  (when edn-bridge-faces--mono-cookie
    (face-remap-remove-relative edn-bridge-faces--mono-cookie))
  (setq edn-bridge-faces--mono-cookie
        (and buffer-face-mode
             (face-remap-add-relative
              'edn-bridge-mono
              :family (face-attribute 'fixed-pitch :family nil 'default)))))

(declare-function face-remap-remove-relative "face-remap")

(add-hook 'after-make-frame-functions #'edn-bridge-faces-refresh)
(if (boundp 'enable-theme-functions)
    (progn
      (add-hook 'enable-theme-functions #'edn-bridge-faces-compute)
      (add-hook 'disable-theme-functions #'edn-bridge-faces-compute))
  ;; Before Emacs 29 no hook tells of a theme.
  (advice-add 'enable-theme :after #'edn-bridge-faces-compute)
  (advice-add 'disable-theme :after #'edn-bridge-faces-compute))

(defun edn-bridge-faces-unload-function ()
  "Compute nothing more when a theme changes, as the library is unloaded."
  (remove-hook 'after-make-frame-functions #'edn-bridge-faces-refresh)
  (advice-remove 'enable-theme #'edn-bridge-faces-compute)
  (advice-remove 'disable-theme #'edn-bridge-faces-compute)
  nil)

;;;; Faces of others, on a background of ours

(defun edn-bridge-faces-on (face background)
  "Return FACE as it can be read on BACKGROUND.
That is what a `face' property may hold: for a face, one of the package
that has its colour, weight and slant; for a list of faces, a list.
Colours that do not come from a face are left out."
  (cond
   ((null face) nil)
   ((and (symbolp face) (facep face))
    (if (get face 'edn-bridge-faces)
        face
      (edn-bridge-faces--derived face background)))
   ((symbolp face) nil)
   ((keywordp (car-safe face))
    (cl-loop for (key value) on face by #'cddr
             when (memq key '(:weight :slant :underline :strike-through))
             append (list key value)
             when (eq key :inherit)
             append (list :inherit (edn-bridge-faces-on value background))))
   ((consp face)
    (and (listp (cdr face))
         (not (memq (car face) '(foreground-color background-color)))
         (delq nil (mapcar (lambda (one) (edn-bridge-faces-on one background))
                           face))))))

(defun edn-bridge-faces-keys (text)
  "Return TEXT with the keys of its commands, as `substitute-command-keys'.
Their face can be read on what the text stands on."
  (let* ((text (substitute-command-keys text))
         (place 0)
         (end (length text)))
    (while (< place end)
      (let ((next (next-single-property-change place 'face text end)))
        (when (get-text-property place 'face text)
          (put-text-property place next 'face 'edn-bridge-key text))
        (setq place next)))
    text))

(defun edn-bridge-faces--derived (face background)
  "Return the face of the package that has the colour of FACE on BACKGROUND."
  (let ((derived (intern (format "edn-bridge-on-%s:%s" background face))))
    (unless (get derived 'edn-bridge-faces)
      (make-empty-face derived)
      (set-face-documentation
       derived
       (format "The face `%s' as it can be read on %s." face background))
      (put derived 'edn-bridge-faces
           `(:class read :foreground ,face :on (,background) :like ,face))
      (push derived edn-bridge-faces)
      (edn-bridge-faces--compute-one derived))
    derived))

(defun edn-bridge-faces--compute-one (face)
  "Compute the colours of FACE, which is new."
  (pcase-dolist (`(,display . ,frame) (edn-bridge-faces--frames))
    (when-let ((entry (assoc display edn-bridge-faces--displays)))
      (push (cons face (edn-bridge-faces--attributes face frame))
            (cdr entry))))
  (edn-bridge-faces--apply face))

;;;; The faces

(defmacro edn-bridge-faces-define (face recipe documentation)
  "Define FACE, with DOCUMENTATION, whose colours are computed by RECIPE.
RECIPE is a property list:
  :class       `read': text that must be read; `muted': text that nobody
               needs to decide anything; `mark': no text, or none of its own
  :foreground  the face that it has its colour from
  :background  `raised', or the face that it has its background from, or a
               list (tint FACE SHARE), see `edn-bridge-faces--tint'
  :otherwise   the face that it has its colour from without a background
  :on          the backgrounds that it stands on, if it has none itself:
               `raised', faces, and `default', which it is without this
  :over        non-nil for a face that stands above others, whose colours
               could not be read on its background
  :mono        non-nil for text whose columns matter
Others are attributes of the face."
  (declare (indent 1) (doc-string 3))
  `(progn
     (put ',face 'edn-bridge-faces ',recipe)
     (cl-pushnew ',face edn-bridge-faces)
     ;; `edn-bridge-faces-compute' gives it its attributes.
     (defface ,face '((t))
       ,documentation
       :group 'edn-bridge)))

;;; Of any buffer

(edn-bridge-faces-define edn-bridge-mono
  (:class mark)
  "Font of code, tables and names of tools.
It is that of `default', unless its characters differ in width.")

(edn-bridge-faces-define edn-bridge-muted
  (:class muted :foreground shadow :on (default raised))
  "Face of what nobody needs to decide anything.")

(edn-bridge-faces-define edn-bridge-accent
  (:class read :foreground warning :on (default raised))
  "Face of what asks for attention.")

(edn-bridge-faces-define edn-bridge-error
  (:class read :foreground error :on (default raised))
  "Face of what went wrong, or can do harm.")

(edn-bridge-faces-define edn-bridge-success
  (:class read :foreground success)
  "Face of what is as it should be.")

(edn-bridge-faces-define edn-bridge-title
  (:class read :weight bold)
  "Face of titles and names.")

(edn-bridge-faces-define edn-bridge-button
  (:class read :foreground link :underline t :on (default raised))
  "Face of buttons and links.")

(edn-bridge-faces-define edn-bridge-key
  (:class read :foreground default :over t :weight bold)
  "Face of the keys that a line of text names.")

(edn-bridge-faces-define edn-bridge-raised
  (:class read :background raised :mono t :extend t)
  "Face of code, commands and output: what is set off from the text.")

(edn-bridge-faces-define edn-bridge-visible-code
  (:class read :foreground escape-glyph
   :on (default raised edn-bridge-diff-added edn-bridge-diff-removed))
  "Face of the codes of characters that cannot be seen.")

(edn-bridge-faces-define edn-bridge-rewrite-pending
  (:class read :background highlight)
  "Face of a region that is being rewritten.")

;;; Of the header line and the mode line

(edn-bridge-faces-define edn-bridge-header-muted
  (:class muted :foreground shadow :on (header-line))
  "Face of names and signs in the header line.")

(edn-bridge-faces-define edn-bridge-header-accent
  (:class read :foreground warning :on (header-line))
  "Face of what asks for attention in the header line.")

(edn-bridge-faces-define edn-bridge-header-error
  (:class read :foreground error :on (header-line))
  "Face of what went wrong in the header line.")

(edn-bridge-faces-define edn-bridge-attention
  (:class read :foreground warning :weight bold
   :on (mode-line mode-line-inactive))
  "Face of the mode line's mark for sessions that need the user.")

(edn-bridge-faces-define edn-bridge-work
  (:class read :foreground warning :weight bold
   :on (mode-line mode-line-inactive))
  "Face of the session in the mode line that needs the user.")

;;; Of messages

(edn-bridge-faces-define edn-bridge-messages-user
  (:class read :foreground font-lock-keyword-face :weight bold)
  "Face of the heading of the user's messages.")

(edn-bridge-faces-define edn-bridge-messages-assistant
  (:class read :foreground font-lock-type-face :weight bold)
  "Face of the heading of the assistant's messages.")

(edn-bridge-faces-define edn-bridge-messages-thinking
  (:class muted :foreground shadow :slant italic)
  "Face of what the model thinks aloud.")

(edn-bridge-faces-define edn-bridge-chat-notice
  (:class muted :foreground shadow)
  "Face of what the bridge has to say.")

(edn-bridge-faces-define edn-bridge-transcript-footer
  (:class muted :foreground shadow)
  "Face of the footer between the transcript and the draft.")

(edn-bridge-faces-define edn-bridge-transcript-rule
  (:class muted :foreground shadow :strike-through t :extend t)
  "Face of the rule above the draft, on a graphical display.")

;;; Of markdown

(edn-bridge-faces-define edn-bridge-markdown-heading
  (:class read :foreground font-lock-function-name-face :weight bold)
  "Face of headings.")

(edn-bridge-faces-define edn-bridge-markdown-bold
  (:class mark :weight bold)
  "Face of strong emphasis.")

(edn-bridge-faces-define edn-bridge-markdown-italic
  (:class mark :slant italic)
  "Face of emphasis.")

(edn-bridge-faces-define edn-bridge-markdown-code
  (:class read :foreground font-lock-constant-face :mono t)
  "Face of code within a line.")

(edn-bridge-faces-define edn-bridge-markdown-block
  (:class read :background raised :mono t :extend t)
  "Face of code blocks.
Where their background cannot be computed, their indentation sets them off.")

(edn-bridge-faces-define edn-bridge-markdown-language
  (:class muted :foreground shadow :background raised :mono t :extend t)
  "Face of the line above a code block, with its language.")

(edn-bridge-faces-define edn-bridge-markdown-struck
  (:class muted :foreground shadow :strike-through t)
  "Face of text that is struck out.")

(edn-bridge-faces-define edn-bridge-markdown-table
  (:class mark :mono t)
  "Face of tables, whose columns stand one below another.")

(edn-bridge-faces-define edn-bridge-markdown-table-heading
  (:class mark :weight bold :mono t)
  "Face of the first row of tables.")

(edn-bridge-faces-define edn-bridge-markdown-markup
  (:class muted :foreground shadow)
  "Face of the markup itself: fences, bullets, quote marks.")

(edn-bridge-faces-define edn-bridge-markdown-quote
  (:class read :foreground font-lock-doc-face)
  "Face of quoted paragraphs.")

(edn-bridge-faces-define edn-bridge-markdown-link
  (:class read :foreground link :underline t)
  "Face of links.")

;;; Of tool calls and diffs

(edn-bridge-faces-define edn-bridge-tools-name
  (:class read :foreground font-lock-builtin-face :mono t)
  "Face of the names of tools.")

(edn-bridge-faces-define edn-bridge-tools-summary
  (:class read)
  "Face of what a tool call does.")

(edn-bridge-faces-define edn-bridge-tools-state
  (:class muted :foreground shadow :mono t)
  "Face of how a tool call went.")

(edn-bridge-faces-define edn-bridge-tools-failed
  (:class read :foreground error :mono t)
  "Face of the state of a tool call that failed.")

(edn-bridge-faces-define edn-bridge-tools-output
  (:class read :background raised :mono t :extend t)
  "Face of the output of tools.")

(edn-bridge-faces-define edn-bridge-diff-context
  (:class read :background raised :mono t :extend t)
  "Face of the lines of a diff that stay.")

(edn-bridge-faces-define edn-bridge-diff-header
  (:class muted :foreground shadow :background raised :mono t :extend t)
  "Face of the lines of a diff that say where its lines are.")

(edn-bridge-faces-define edn-bridge-diff-added
  (:class read :background (tint diff-added 0.15) :otherwise diff-added
   :mono t :extend t)
  "Face of the lines that a diff adds.")

(edn-bridge-faces-define edn-bridge-diff-removed
  (:class read :background (tint diff-removed 0.15) :otherwise diff-removed
   :mono t :extend t)
  "Face of the lines that a diff removes.")

(edn-bridge-faces-define edn-bridge-diff-sign-added
  (:class read :foreground diff-added :on (edn-bridge-diff-added)
   :weight bold)
  "Face of the sign of the lines that a diff adds.")

(edn-bridge-faces-define edn-bridge-diff-sign-removed
  (:class read :foreground diff-removed :on (edn-bridge-diff-removed)
   :weight bold)
  "Face of the sign of the lines that a diff removes.")

(edn-bridge-faces-define edn-bridge-diff-refine-added
  (:class read :background (tint diff-refine-added 0.35)
   :otherwise diff-refine-added
   :over t :weight bold)
  "Face of the words that a diff adds to a line.")

(edn-bridge-faces-define edn-bridge-diff-refine-removed
  (:class read :background (tint diff-refine-removed 0.35)
   :otherwise diff-refine-removed
   :over t :weight bold)
  "Face of the words that a diff removes from a line.")

;;; Of questions

(edn-bridge-faces-define edn-bridge-interact-title
  (:class read :foreground warning)
  "Face of the first line of a question.")

(edn-bridge-faces-define edn-bridge-interact-danger
  (:class read :foreground error)
  "Face of a question whose answer can do harm.")

(edn-bridge-faces-define edn-bridge-interact-button
  (:class read :foreground link :underline t :weight bold :on (default raised))
  "Face of the buttons that answer a question.")

(edn-bridge-faces-define edn-bridge-interact-bar
  (:class muted :foreground warning
   :on (default raised edn-bridge-diff-added edn-bridge-diff-removed))
  "Face of the bar at the left of what a question says.")

;;; Of other buffers

(edn-bridge-faces-define edn-bridge-mcp-server
  (:class read :weight bold)
  "Face of the name of a server.")

(edn-bridge-faces-define edn-bridge-mcp-ready
  (:class read :foreground success)
  "Face of the state of a server that answers.")

(edn-bridge-faces-define edn-bridge-mcp-wrong
  (:class read :foreground error)
  "Face of the state of a server that does not, and of its last error.")

(edn-bridge-faces-define edn-bridge-log-out
  (:class muted :foreground font-lock-keyword-face)
  "Face of the mark of frames sent.")

(edn-bridge-faces-define edn-bridge-log-in
  (:class muted :foreground font-lock-string-face)
  "Face of the mark of frames received.")

(edn-bridge-faces-compute)

(provide 'edn-bridge-faces)

;;; edn-bridge-faces.el ends here
