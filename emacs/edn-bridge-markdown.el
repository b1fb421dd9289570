;;; edn-bridge-markdown.el --- Faces for markdown as it streams in  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Puts faces on markdown that is inserted bit by bit.  Each line is looked
;; at once when it is complete; the last, unfinished line is looked at again
;; only while it is short and only when something that could matter came.
;; So the cost of a bit is that of the bit, whatever stands before it.
;;
;; Code blocks get the faces of their language's major mode, from an idle
;; timer, once they are closed: loading a mode may take a while.
;;
;; The text is left as it is, markup included, and so is what is copied of
;; it.  The markup is not shown, though, unless the user wants to see it:
;; it is invisible, or displayed as something else.  Both hang on the buffer,
;; so that to change it costs nothing.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'edn-bridge-transcript)

(defgroup edn-bridge-markdown nil
  "Faces of the markdown in a transcript."
  :group 'edn-bridge)

(defcustom edn-bridge-markdown-code-limit 10000
  "Longest code block, in characters, that gets its language's faces."
  :type 'natnum
  :group 'edn-bridge-markdown)

(defcustom edn-bridge-markdown-languages
  '(("bash" . sh-mode) ("c++" . c++-mode) ("clj" . clojure-mode)
    ("cpp" . c++-mode) ("diff" . diff-mode) ("el" . emacs-lisp-mode)
    ("elisp" . emacs-lisp-mode) ("js" . js-mode) ("javascript" . js-mode)
    ("json" . js-mode) ("patch" . diff-mode) ("py" . python-mode)
    ("rs" . rust-mode) ("sh" . sh-mode) ("shell" . sh-mode)
    ("ts" . typescript-mode) ("yml" . yaml-mode) ("zsh" . sh-mode))
  "Major modes for languages whose name is not that of their mode.
A language that is not listed has the mode that is called after it, if
that is a mode for code which Emacs visits some files in."
  :type '(alist :key-type string :value-type function)
  :group 'edn-bridge-markdown)

(defcustom edn-bridge-markdown-hide-markup t
  "Non-nil means that the markup itself is not shown in new chats.
\\[edn-bridge-markdown-toggle-markup] shows and hides it in a chat."
  :type 'boolean
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-heading
  '((t :inherit font-lock-function-name-face :weight bold))
  "Face of headings."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-bold '((t :inherit bold))
  "Face of strong emphasis."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-italic '((t :inherit italic))
  "Face of emphasis."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-code
  '((t :inherit (fixed-pitch font-lock-constant-face)))
  "Face of code within a line."
  :group 'edn-bridge-markdown)

;; The colours are left to the theme.
(defface edn-bridge-markdown-block
  '((t :inherit (fixed-pitch fringe) :extend t))
  "Face of code blocks.
The fringe's background sets them off; where a theme has none for that,
their indentation does, or a background that you give this face."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-language
  '((t :inherit (shadow edn-bridge-markdown-block)))
  "Face of the line above a code block, with its language."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-struck
  '((t :inherit shadow :strike-through t))
  "Face of text that is struck out."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-table '((t :inherit fixed-pitch))
  "Face of tables, whose columns stand one below another."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-table-heading
  '((t :inherit (bold edn-bridge-markdown-table)))
  "Face of the first row of tables."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-markup '((t :inherit shadow))
  "Face of the markup itself: fences, bullets, quote marks."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-quote '((t :inherit font-lock-doc-face))
  "Face of quoted paragraphs."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-link '((t :inherit link))
  "Face of links."
  :group 'edn-bridge-markdown)

;;;; Public API

(cl-defstruct (edn-bridge-markdown (:constructor edn-bridge-markdown--make)
                                   (:copier nil))
  "A piece of markdown that is being inserted."
  (line nil :documentation "Marker at the start of the unfinished line.")
  (fence nil :documentation "Fence of the open code block, a string, or nil.")
  (language nil :documentation "Language of the open code block, or nil.")
  (block nil :documentation "Marker at the first line of the open code block.")
  (table nil :documentation "Marker at the first line of the open table, or nil.")
  (seen nil :documentation "Non-nil if the unfinished line has faces already.")
  (fences 0 :documentation "How many fences the piece has so far.")
  (cells 0 :documentation "How many cells the tables of the piece have so far.")
  (size 0 :documentation "How many characters the piece has so far."))

(defvar-local edn-bridge-markdown-hidden nil
  "Non-nil if the markup of this buffer is hidden.")

(defun edn-bridge-markdown-setup ()
  "Have this buffer hide the markup, if the user wants that."
  ;; No ellipsis stands for it.
  (add-to-invisibility-spec 'edn-bridge-markdown)
  (unless edn-bridge-markdown-hide-markup
    (remove-from-invisibility-spec 'edn-bridge-markdown))
  (setq edn-bridge-markdown-hidden edn-bridge-markdown-hide-markup))

(defun edn-bridge-markdown-toggle-markup ()
  "Show the markup of this chat's messages, or hide it again."
  (interactive nil edn-bridge-chat-mode)
  (setq edn-bridge-markdown-hidden (not edn-bridge-markdown-hidden))
  (if edn-bridge-markdown-hidden
      (add-to-invisibility-spec 'edn-bridge-markdown)
    (remove-from-invisibility-spec 'edn-bridge-markdown))
  (edn-bridge-transcript-fill-windows)
  (force-window-update (current-buffer)))

(defun edn-bridge-markdown-begin (position)
  "Return the state of a piece of markdown that begins at POSITION."
  (edn-bridge-markdown--make :line (copy-marker position)))

(defun edn-bridge-markdown-feed (state start end)
  "Put faces on the text between START and END, just added to STATE's piece."
  (let* ((room (- edn-bridge-markdown--piece-limit
                  (edn-bridge-markdown-size state)))
         (end (min end (+ start (max 0 room))))
         ;; Who wants to know of a change was told of the text itself.
         (inhibit-modification-hooks t)
         ;; A new piece has no field yet, unlike what stands before it: a
         ;; line would end where it begins.
         (inhibit-field-text-motion t)
         (fresh start))
    (setf (edn-bridge-markdown-size state)
          (+ (edn-bridge-markdown-size state) (- end start)))
    (goto-char start)
    (while (search-forward "\n" end t)
      (let ((next (point)))
        (edn-bridge-markdown--line state
                                   (edn-bridge-markdown-line state) (1- next)
                                   next)
        (set-marker (edn-bridge-markdown-line state) next)
        (setf (edn-bridge-markdown-seen state) nil)
        (goto-char next)
        (when (edn-bridge-markdown-fence state)
          (edn-bridge-markdown--skip-code state end))
        (setq fresh (point))))
    (when (< fresh end)
      (edn-bridge-markdown--unfinished state fresh end))))

(defun edn-bridge-markdown--skip-code (state end)
  "Put faces on the complete lines from point on that are code, before END.
Point, where STATE's unfinished line begins, moves to the first line that
may close the block."
  (let* ((from (point))
         (last (save-excursion (goto-char end) (line-beginning-position)))
         (to (if (and (< from last)
                      (re-search-forward "^[ \t]*\\(?:```\\|~~~\\)" last t))
                 (line-beginning-position)
               last)))
    (when (< from to)
      (edn-bridge-markdown--face from to 'edn-bridge-markdown-block)
      (set-marker (edn-bridge-markdown-line state) to))
    (goto-char (max from to))))

(defun edn-bridge-markdown-finish (state end)
  "Put faces on what is left of STATE's piece, which ends at END."
  (let ((inhibit-field-text-motion t))
    (when (and (< (edn-bridge-markdown-line state) end)
               (< (edn-bridge-markdown-size state)
                  edn-bridge-markdown--piece-limit))
      (edn-bridge-markdown--line state (edn-bridge-markdown-line state) end))
    (when (and (edn-bridge-markdown-block state)
               (< (edn-bridge-markdown-block state) end))
      (edn-bridge-markdown--close-block state end))
    (edn-bridge-markdown--close-table state end)
    (set-marker (edn-bridge-markdown-line state) nil)))

(defun edn-bridge-markdown-region (start end)
  "Put faces on the complete piece of markdown between START and END."
  (save-excursion
    (let ((state (edn-bridge-markdown-begin start)))
      (edn-bridge-markdown-feed state start end)
      (edn-bridge-markdown-finish state end))))

;;;; Links

(defvar edn-bridge-markdown-fence-map)

(defvar edn-bridge-markdown-link-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'edn-bridge-markdown-follow)
    (define-key map [mouse-2] #'edn-bridge-markdown-follow)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on links.")

(defun edn-bridge-markdown-follow (&optional event)
  "Go where the link at point leads, or the one where the mouse EVENT was.
That is a page, for the browser, or a file, perhaps with a line."
  (interactive (list last-nonmenu-event))
  (when (mouse-event-p event)
    (mouse-set-point event))
  (let ((target (get-text-property (point) 'edn-bridge-markdown-target)))
    (cond
     ((null target)
      (user-error "There is no link here"))
     ((and (get-text-property (point) 'edn-bridge-markdown-image)
           (edn-bridge-markdown--image-p target))
      (edn-bridge-markdown--toggle-image target))
     ((string-match-p "\\`\\(?:https?\\|mailto\\):" target)
      (browse-url target))
     ((and (string-match-p "\\`[[:alpha:]][[:alnum:]+.-]+:" target)
           (not (string-prefix-p "file:///" target))
           (not (string-match-p "\\`[^/:]+\\.[[:alnum:]]+:[0-9]" target)))
      (user-error "Links like %s are not followed" target))
     ((string-match "\\`\\(?:file://\\)?\\(.+?\\)\\(?:\\(?::\\|#L\\)\\([0-9]+\\).*\\)?\\'"
                    target)
      (edn-bridge-transcript-visit
       (match-string 1 target)
       (and (match-string 2 target)
            (string-to-number (match-string 2 target))))))))

;;;; Images

;; An image is shown when its link is followed, and not before: which file
;; Emacs reads is for the user to say.

(defcustom edn-bridge-markdown-image-width 480
  "How many pixels wide images of the folder are shown at most."
  :type 'natnum
  :group 'edn-bridge-markdown)

(defconst edn-bridge-markdown--image-size (* 10 1024 1024)
  "Largest file, in bytes, that is shown as an image.")

(defconst edn-bridge-markdown--image-types
  '(("png" . png) ("jpg" . jpeg) ("jpeg" . jpeg) ("gif" . gif)
    ("webp" . webp))
  "Types of images by the ends of their files' names or MIME types.
Drawings are not among them: those may name other files.")

(defun edn-bridge-markdown-image (data name width)
  "Return the image of DATA, bytes, at most WIDTH pixels wide, or nil.
Its type is that of NAME, the end of a file's name or MIME type, whatever
the bytes look like."
  (let ((type (cdr (assoc (downcase (or name ""))
                          edn-bridge-markdown--image-types))))
    (and type
         (display-images-p)
         (image-type-available-p type)
         (create-image data type t :max-width width))))

(defun edn-bridge-markdown--image-p (target)
  "Return non-nil if TARGET is an image file that can be shown here."
  (and (display-images-p)
       (not (string-match-p "\\`[[:alpha:]][[:alnum:]+.-]+:" target))
       (assoc (downcase (or (file-name-extension target) ""))
              edn-bridge-markdown--image-types)))

(defun edn-bridge-markdown--toggle-image (target)
  "Show the image in the file TARGET in the place of its link, or the link."
  (let* ((start (if (and (> (point) (point-min))
                         (get-text-property (1- (point))
                                            'edn-bridge-markdown-image))
                    (previous-single-property-change
                     (point) 'edn-bridge-markdown-image nil (point-min))
                  (point)))
         (end (next-single-property-change start 'edn-bridge-markdown-image
                                           nil (point-max)))
         (image (and (not (get-text-property start 'display))
                     (edn-bridge-markdown--image target))))
    (with-silent-modifications
      (put-text-property start end 'display image))))

(defun edn-bridge-markdown--image (target)
  "Return the image in the file TARGET of this chat's folder."
  (let* ((file (edn-bridge-transcript-file target))
         (size (file-attribute-size (file-attributes file))))
    (unless (and (file-regular-p file) size
                 (<= size edn-bridge-markdown--image-size))
      (user-error "There is no image %s, or it is too large" file))
    (edn-bridge-markdown-image (with-temp-buffer
                                 (set-buffer-multibyte nil)
                                 (insert-file-contents-literally file)
                                 (buffer-string))
                               (file-name-extension file)
                               edn-bridge-markdown-image-width)))

;;;; Lines

(defconst edn-bridge-markdown--properties
  '(face edn-bridge-markdown-target edn-bridge-markdown-image help-echo
         mouse-face keymap invisible)
  "Properties that the text of an unfinished line may get.")

(defsubst edn-bridge-markdown--hide (start end)
  "Have the markup between START and END not shown."
  (put-text-property start end 'invisible 'edn-bridge-markdown))

(defun edn-bridge-markdown--display (start end hidden &optional shown)
  "Have HIDDEN displayed for what is between START and END.
That is where the markup is hidden; elsewhere, SHOWN is displayed.  Where
one is nil, the text is."
  (put-text-property
   start end 'display
   (if (equal hidden shown)
       shown
     `(,@(and hidden `((when edn-bridge-markdown-hidden . ,hidden)))
       ,@(and shown `((when (not edn-bridge-markdown-hidden) . ,shown)))))))

(defconst edn-bridge-markdown--line-limit 2000
  "Longest line, in characters, that is searched for markup within it.")

(defconst edn-bridge-markdown--faces-limit 100
  "How many pieces of markup within one line get faces.")

(defconst edn-bridge-markdown--piece-limit 40000
  "How much of one piece of markdown, in characters, gets faces.")

(defconst edn-bridge-markdown--fence "[ \t]*\\(```+\\|~~~+\\)[ \t]*\\([^ \t\n`]*\\)"
  "Matches the line that opens or closes a code block.")

(defconst edn-bridge-markdown--fence-limit 400
  "How many fences of one piece of markdown are hidden.
Each costs time whenever a line behind it is shown.")

(defun edn-bridge-markdown--few-fences-p (state)
  "Count a fence of STATE's piece; return non-nil while there are few."
  (<= (cl-incf (edn-bridge-markdown-fences state))
      edn-bridge-markdown--fence-limit))

(defun edn-bridge-markdown--line (state start end &optional next)
  "Put faces on the complete line between START and END of STATE's piece.
NEXT is where the next line of the piece begins, or nil if this is the last."
  (goto-char start)
  (skip-chars-forward " \t" end)
  (cond
   ((edn-bridge-markdown-fence state)
    (goto-char start)
    (if (and (looking-at edn-bridge-markdown--fence)
             (string-prefix-p (edn-bridge-markdown-fence state)
                              (match-string-no-properties 1))
             (= (match-beginning 2) (match-end 2)))
        (progn
          (edn-bridge-markdown--close-block state start)
          (edn-bridge-markdown--face start end 'edn-bridge-markdown-markup)
          (when (edn-bridge-markdown--few-fences-p state)
            (edn-bridge-markdown--hide start (or next end))))
      (edn-bridge-markdown--face start (or next end)
                                 'edn-bridge-markdown-block)))
   ;; What a line begins with is asked first: most lines are prose.
   ((and (memq (char-after) '(?` ?~))
         (progn (goto-char start)
                (looking-at edn-bridge-markdown--fence)))
    (edn-bridge-markdown--close-table state start)
    (when (< end (point-max))
      (add-text-properties start end
                           (list 'keymap edn-bridge-markdown-fence-map
                                 'mouse-face 'highlight
                                 'help-echo "RET, mouse-2: copy this code")))
    (cond ((not (edn-bridge-markdown--few-fences-p state)))
          ((= (match-beginning 2) (match-end 2))
           (edn-bridge-markdown--display (match-beginning 1) (match-end 1)
                                         "code"))
          (t
           (edn-bridge-markdown--hide start (match-beginning 2))))
    (setf (edn-bridge-markdown-fence state) (match-string-no-properties 1)
          (edn-bridge-markdown-language state) (match-string-no-properties 2)
          (edn-bridge-markdown-block state)
          (copy-marker (min (1+ end) (point-max))))
    (edn-bridge-markdown--face start end 'edn-bridge-markdown-language))
   ((and (eq (char-after) ?|) (< (point) end))
    (unless (edn-bridge-markdown-table state)
      (setf (edn-bridge-markdown-table state) (copy-marker start)))
    (edn-bridge-markdown--prose start end (edn-bridge-markdown-seen state)))
   (t
    (when (edn-bridge-markdown-table state)
      (edn-bridge-markdown--close-table state start))
    (edn-bridge-markdown--prose start end (edn-bridge-markdown-seen state))
    (edn-bridge-markdown--adorn start end))))

(defconst edn-bridge-markdown--signs
  `((bullet (when edn-bridge-markdown-hidden . "•"))
    (quote (when edn-bridge-markdown-hidden . "▌"))
    (open (when edn-bridge-markdown-hidden . "☐"))
    (done (when edn-bridge-markdown-hidden . "☑"))
    (rule (when edn-bridge-markdown-hidden
            . ,(propertize (make-string 40 ?─) 'face 'shadow))))
  "What is displayed, where markup is hidden, for signs that begin a line.")

(defun edn-bridge-markdown--adorn (start end)
  "Have the line of prose between START and END begin with better signs.
It is complete: what is displayed so is not looked at again."
  (goto-char start)
  (skip-chars-forward " \t" end)
  (let* ((from (point))
         (sign (and (< from end) (char-after)))
         (next (and sign (char-after (1+ from)))))
    (cond
     ((eq sign ?>)
      (edn-bridge-markdown--sign from (1+ from) 'quote))
     ((and (memq sign '(?- ?* ?+)) (memq next '(?\s ?\t)))
      (goto-char (+ from 2))
      (if (not (and (eq (char-after) ?\[)
                    (looking-at "\\[\\([ xX]\\)\\][ \t]")))
          (edn-bridge-markdown--sign from (1+ from) 'bullet)
        (edn-bridge-markdown--sign
         from (1- (match-end 0))
         (if (eq (char-after (match-beginning 1)) ?\s) 'open 'done))))
     ((and (memq sign '(?- ?* ?_)) (eq sign next)
           (looking-at "\\(?:-\\{3,\\}\\|\\*\\{3,\\}\\|_\\{3,\\}\\)[ \t]*$"))
      (edn-bridge-markdown--sign from (match-end 0) 'rule)))))

(defun edn-bridge-markdown--sign (start end sign)
  "Have SIGN of `edn-bridge-markdown--signs' shown from START to END."
  (put-text-property start end 'display
                     (cadr (assq sign edn-bridge-markdown--signs))))

(defun edn-bridge-markdown--prose (start end &optional seen)
  "Put faces on the line of prose between START and END.
SEEN non-nil means that it may have some of an earlier look at it."
  (when seen
    (remove-list-of-text-properties start end edn-bridge-markdown--properties))
  (goto-char start)
  (skip-chars-forward " \t" end)
  (let ((sign (and (< (point) end) (char-after))))
    (cond
     ((null sign))
     ((eq sign ?#)
      (when (and (= (point) start)
                 (looking-at "#\\{1,6\\}[ \t]+"))
        (edn-bridge-markdown--face start end 'edn-bridge-markdown-heading)
        (edn-bridge-markdown--hide start (min end (match-end 0)))))
     ((eq sign ?>)
      (edn-bridge-markdown--face start end 'edn-bridge-markdown-quote))
     ((eq sign ?|)
      (edn-bridge-markdown--face start end 'edn-bridge-markdown-table))
     ((and (or (memq sign '(?- ?* ?+)) (<= ?0 sign ?9))
           (looking-at "\\(?:[-*+]\\|[0-9]+[.)]\\)[ \t]"))
      (edn-bridge-markdown--face start (match-end 0)
                                 'edn-bridge-markdown-markup)
      (goto-char (match-end 0)))))
  (when (<= (- end start) edn-bridge-markdown--line-limit)
    (edn-bridge-markdown--inline (point) end)))

;; A regexp for all of this would look for the end of each pair that is not
;; closed anew from each of its beginnings.  So the scanner below goes over
;; the line once, and remembers which signs have no partner in the rest.

(defvar edn-bridge-markdown--steps 0
  "How often a sign was looked at, for the tests.")

(defun edn-bridge-markdown--inline (start end)
  "Put faces on code, emphasis and links between START and END, in a line."
  (let ((left edn-bridge-markdown--faces-limit)
        (no-code nil)                   ; no ` follows
        (bracket start)                 ; the last ] found, or END
        (bracket-leads nil))            ; end of the link that it closes
    (goto-char start)
    (while (progn (skip-chars-forward "^`*_[h~\\\\" end)
                  (and (< (point) end) (> left 0)))
      (cl-incf edn-bridge-markdown--steps)
      (let ((from (point)))
        (pcase (char-after)
          (?`
           (forward-char)
           (unless (or no-code (eq (char-after) ?`))
             (if (search-forward "`" end t)
                 (edn-bridge-markdown--mark from (point) 1
                                            'edn-bridge-markdown-code)
               (setq no-code t))))
          (?*
           (edn-bridge-markdown--emphasis from end))
          (?\\
           ;; The next sign is meant as it stands.
           (if (not (and (looking-at-p "\\\\[[:punct:]]")
                         (<= (+ from 2) end)))
               (forward-char)
             (edn-bridge-markdown--hide from (1+ from))
             (forward-char 2)))
          (?~
           (if (not (looking-at-p "~~[^~ \n]"))
               (forward-char)
             (forward-char 2)
             (skip-chars-forward "^~" end)
             (if (not (and (< (1+ (point)) end) (looking-at-p "~~")))
                 (goto-char (min end (max (point) (+ from 2))))
               (forward-char 2)
               (edn-bridge-markdown--mark from (point) 2
                                          'edn-bridge-markdown-struck))))
          (?_
           (if (not (looking-at-p "\\_<_[^_ \n]"))
               (forward-char)
             (forward-char)
             (skip-chars-forward "^_" end)
             (when (and (< (point) end)
                        (progn (forward-char) (looking-at-p "\\_>")))
               (edn-bridge-markdown--mark from (point) 1
                                          'edn-bridge-markdown-italic))))
          (?\[
           (when (and (<= bracket from) (< bracket end))
             (setq bracket (progn (skip-chars-forward "^]" end) (point))
                   bracket-leads
                   (and (< bracket end)
                        (looking-at "](\\([^) \n]\\{1,1000\\}\\))")
                        (<= (match-end 0) end)
                        (cons (match-end 0) (match-string-no-properties 1)))))
           (if (not (and bracket-leads (> bracket (1+ from))))
               (goto-char (1+ from))
             (edn-bridge-markdown--add-labelled from bracket start
                                                bracket-leads)
             (goto-char (car bracket-leads))))
          (_
           (if (and (looking-at
                     "https?://[^] \t\n)>\"`]*[^] \t\n)>\"`.,;:!?']")
                    (<= (match-end 0) end))
               (let ((to (match-end 0)))
                 (edn-bridge-markdown--add-link
                  from to (match-string-no-properties 0))
                 (goto-char to))
             (forward-char))))
        ;; Only what gets a face is longer than its sign.
        (when (> (point) (+ from 2))
          (cl-decf left))))))

(defun edn-bridge-markdown--emphasis (from end)
  "Put a face on the emphasis that begins with the * at FROM, before END.
Leave point behind it, or behind the sign where there is none."
  (let* ((next (char-after (1+ from)))
         (strong (and (eq next ?*)
                      (not (memq (char-after (+ from 2)) '(?* ?\s ?\n nil)))))
         (begun (or strong (not (memq next '(?* ?\s ?\n nil))))))
    (goto-char (+ from (if strong 2 1)))
    (when begun
      (skip-chars-forward "^*" end)
      (cond
       ((>= (point) end)
        ;; No other sign follows: nothing is left to look for.
        (goto-char (+ from (if strong 2 1))))
       ((not strong)
        (forward-char)
        (edn-bridge-markdown--mark from (point) 1
                                   'edn-bridge-markdown-italic))
       ((and (< (1+ (point)) end) (eq (char-after (1+ (point))) ?*))
        (forward-char 2)
        (edn-bridge-markdown--mark from (point) 2 'edn-bridge-markdown-bold))
       (t
        (goto-char (1+ from)))))))

(defun edn-bridge-markdown--mark (start end size face)
  "Add FACE to the text between START and END, and look for markup in it.
SIZE is how many signs there are at each side of it.  Leave point at END."
  (add-face-text-property start end face)
  (edn-bridge-markdown--hide start (+ start size))
  (edn-bridge-markdown--hide (- end size) end)
  (unless (eq face 'edn-bridge-markdown-code)
    (edn-bridge-markdown--inline (+ start size) (- end size)))
  (goto-char end))

(defun edn-bridge-markdown--add-labelled (start bracket first leads)
  "Make the text from START on a link whose label ends at BRACKET.
LEADS is a cons of where the link ends and what it leads to; the text that
was looked at began at FIRST."
  (pcase-let* ((`(,end . ,target) leads)
               (image (and (> start first) (eq (char-before start) ?!)))
               (label (buffer-substring-no-properties (1+ start) bracket)))
    (edn-bridge-markdown--inline (1+ start) bracket)
    (edn-bridge-markdown--add-link start end target)
    (edn-bridge-markdown--hide start (1+ start))
    (when image
      (edn-bridge-markdown--hide (1- start) start)
      (put-text-property start end 'edn-bridge-markdown-image t))
    (if (edn-bridge-markdown--misleading-p label target)
        (edn-bridge-markdown--hide bracket (1+ bracket))
      (edn-bridge-markdown--hide bracket end))))

(defun edn-bridge-markdown--misleading-p (label target)
  "Return non-nil if LABEL may be taken for another page than TARGET.
Of such a link the target is always shown."
  (and (string-match-p "\\`\\(?:https?\\|mailto\\):" target)
       (string-match-p "[.:/@]" label)
       (not (equal label target))))

(defun edn-bridge-markdown--add-link (start end target)
  "Make the text between START and END a link to TARGET."
  (add-face-text-property start end 'edn-bridge-markdown-link)
  (add-text-properties start end
                       (list 'edn-bridge-markdown-target target
                             'help-echo (edn-bridge-visible-label target)
                             'mouse-face 'highlight
                             'keymap edn-bridge-markdown-link-map)))

(defun edn-bridge-markdown--unfinished (state fresh end)
  "Put faces on STATE's unfinished line, whose text from FRESH to END is new."
  (let ((start (edn-bridge-markdown-line state)))
    (cond
     ((edn-bridge-markdown-fence state)
      (edn-bridge-markdown--face fresh end 'edn-bridge-markdown-block))
     ((and (<= (- end start) edn-bridge-markdown--line-limit)
           (progn (goto-char fresh)
                  (skip-chars-forward "^*_`)#>~|" end)
                  (< (point) end))
           (progn (goto-char start)
                  (not (looking-at-p edn-bridge-markdown--fence))))
      (edn-bridge-markdown--prose (marker-position start) end
                                  (edn-bridge-markdown-seen state))
      (setf (edn-bridge-markdown-seen state) t)))))

(defsubst edn-bridge-markdown--face (start end face)
  "Give the text between START and END the FACE."
  (if (eq face 'edn-bridge-markdown-block)
      ;; A display without colours sets it off by this.
      (add-text-properties start end '(face edn-bridge-markdown-block
                                            edn-bridge-markdown-code t
                                            line-prefix "  "
                                            wrap-prefix "  "))
    (put-text-property start end 'face face)))

;;;; Tables

;; The columns of a table are laid out by `display' properties on its bars,
;; once its last line is there; what is copied is the text that came.

(defconst edn-bridge-markdown--table-rule
  "[ \t]*|[ \t]*:?-+:?[ \t]*\\(?:|[ \t]*:?-+:?[ \t]*\\)*|?[ \t]*$"
  "Matches the second line of a table, which says how columns are aligned.")

(defconst edn-bridge-markdown--table-limit 40000
  "Longest table, in characters, that is laid out.")

(defconst edn-bridge-markdown--cell-limit 4000
  "How many cells of one piece of markdown are laid out.
Each takes its time, however small it is.")

(defun edn-bridge-markdown--room-p (state start end)
  "Count the cells between START and END; return non-nil if STATE has room."
  (<= (cl-incf (edn-bridge-markdown-cells state)
               (save-excursion
                 (save-match-data (how-many "|" start end))))
      edn-bridge-markdown--cell-limit))

(defun edn-bridge-markdown--close-table (state end)
  "Lay out the table of STATE, if one is open; it ends before END."
  (when-let ((table (edn-bridge-markdown-table state)))
    (let ((start (marker-position table)))
      (set-marker table nil)
      (setf (edn-bridge-markdown-table state) nil)
      (when (and (< start end (+ start edn-bridge-markdown--table-limit))
                 (edn-bridge-markdown--room-p state start end))
        (save-excursion
          (goto-char start)
          (forward-line)
          (when (and (< (point) end)
                     (looking-at-p edn-bridge-markdown--table-rule))
            (edn-bridge-markdown--lay-out start end)))))))

(defvar edn-bridge-markdown--drawn nil
  "Bars of the table that is laid out: a hash table by the columns beside.")

(defun edn-bridge-markdown--lay-out (start end &optional made)
  "Lay out the columns of the table between START and END.
They are as wide as what is displayed, which is less where the markup is
hidden.  MADE non-nil means that it was laid out before, for another width.
What it was laid out for stands at its start: how wide it is shown, how wide
without its markup, the width that it was laid out for, and its length."
  (let* ((rows (edn-bridge-markdown--rows start end))
         (rule (nth 1 rows))
         (body (cons (car rows) (nthcdr 2 rows)))
         (aligns (mapcar #'edn-bridge-markdown--align (cdr rule)))
         (shown (edn-bridge-markdown--widths body nil))
         (hidden (edn-bridge-markdown--widths body t))
         (table (list (apply #'+ (length shown) shown)
                      (apply #'+ (length hidden) hidden)
                      (edn-bridge-markdown--table-width)
                      (- end start)))
         (shown (and (edn-bridge-markdown--fits-p (nth 0 table)) shown))
         (hidden (and (edn-bridge-markdown--fits-p (nth 1 table)) hidden)))
    (put-text-property start (1+ start) 'edn-bridge-markdown-fitted table)
    (unless made
      (add-face-text-property (caar rows) (caadr rows)
                              'edn-bridge-markdown-table-heading))
    (edn-bridge-markdown--offer-table start end (not hidden))
    (when (or made shown hidden)
      (edn-bridge-markdown--display
       (car rule)
       (save-excursion (goto-char (car rule)) (line-end-position))
       (edn-bridge-markdown--drawn-rule hidden)
       (edn-bridge-markdown--drawn-rule shown))
      (let ((edn-bridge-markdown--drawn (make-hash-table)))
        (pcase-dolist (`(,_ . ,cells) body)
          (let ((bars (edn-bridge-markdown--bars cells shown aligns nil)))
            (cl-loop
             for place in (edn-bridge-markdown--bar-places cells)
             for bar in (edn-bridge-markdown--bars cells hidden aligns t)
             do (edn-bridge-markdown--display place (1+ place) bar
                                              (pop bars)))))))))

(defvar edn-bridge-markdown-table-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'edn-bridge-markdown-view-table)
    (define-key map [mouse-2] #'edn-bridge-markdown-view-table)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on the first lines of tables that are too wide for their window.")

(defun edn-bridge-markdown--offer-table (start end wide)
  "Have a key show the table between START and END, if it is too WIDE.
That is in a buffer of its own."
  (let ((line-end (save-excursion (goto-char start) (line-end-position))))
    (cond (wide
           (put-text-property start end 'edn-bridge-markdown-table t)
           (add-text-properties
            start line-end
            (list 'keymap edn-bridge-markdown-table-map
                  'mouse-face 'highlight
                  'help-echo
                  "RET, mouse-2: show this table in a buffer of its own")))
          ((get-text-property start 'edn-bridge-markdown-table)
           (remove-list-of-text-properties start end
                                           '(edn-bridge-markdown-table))
           (remove-list-of-text-properties start line-end
                                           '(keymap mouse-face help-echo))))))

(defun edn-bridge-markdown-fit-table (start table)
  "Lay out TABLE, which begins at START, for the width of its window.
TABLE is what `edn-bridge-markdown--lay-out' noted of it.  It is laid out
anew only where it fits now and did not fit, or the other way round."
  (let ((width (edn-bridge-markdown--table-width)))
    (unless (= width (nth 2 table))
      (if (seq-some (lambda (needed)
                      (not (eq (<= needed width) (<= needed (nth 2 table)))))
                    (list (nth 0 table) (nth 1 table)))
          (with-silent-modifications
            (save-excursion
              (edn-bridge-markdown--lay-out start (+ start (nth 3 table)) t)))
        (setf (nth 2 table) width)))))

(setf (alist-get 'edn-bridge-markdown-fitted edn-bridge-transcript-fitted)
      #'edn-bridge-markdown-fit-table)

(defvar edn-bridge-markdown--any-width nil
  "Non-nil while tables may be wider than their window.")

(defun edn-bridge-markdown-view-table (&optional event)
  "Show the table at point, or where the mouse EVENT was, in a buffer of its own.
Its lines are as long as they must be there."
  (interactive (list last-nonmenu-event))
  (when (mouse-event-p event)
    (mouse-set-point event))
  (unless (get-text-property (point) 'edn-bridge-markdown-table)
    (user-error "There is no wide table here"))
  (let* ((property 'edn-bridge-markdown-table)
         (start (previous-single-property-change (1+ (point)) property
                                                 nil (point-min)))
         (end (next-single-property-change start property nil (point-max)))
         (text (substring-no-properties
                (edn-bridge-visible-unbroken start end))))
    (with-current-buffer (get-buffer-create "*edn-bridge table*")
      (special-mode)
      (edn-bridge-visible-setup)
      (edn-bridge-markdown-setup)
      (setq truncate-lines t)
      (let ((inhibit-read-only t)
            (edn-bridge-markdown--any-width t))
        (erase-buffer)
        (insert text)
        (edn-bridge-markdown-region (point-min) (point-max))
        (edn-bridge-visible-region (point-min) (point-max))
        (goto-char (point-min)))
      (pop-to-buffer (current-buffer)))))

(defun edn-bridge-markdown--fits-p (needed)
  "Return non-nil if a table that is NEEDED columns wide fits in its window."
  (or edn-bridge-markdown--any-width
      (<= needed (edn-bridge-markdown--table-width))))

(defun edn-bridge-markdown--table-width ()
  "Return how wide a table may be: as the window, where there is one."
  (let ((window (get-buffer-window nil t)))
    (if window (max 20 (- (window-width window) 2)) 100)))

(defun edn-bridge-markdown--rows (start end)
  "Return the rows between START and END.
Each is a list of where it begins, and cells: its positions and widths,
between two bars."
  (let ((rows nil))
    (goto-char start)
    (while (< (point) end)
      (let ((row (point))
            (line-end (min end (line-end-position)))
            (cells nil)
            (from nil))
        (while (progn (skip-chars-forward "^|\\\\" line-end)
                      (< (point) line-end))
          (if (eq (char-after) ?\\)
              (goto-char (min line-end (+ 2 (point))))
            (when from
              (push (edn-bridge-markdown--cell from (point)) cells))
            (forward-char)
            (setq from (point))))
        (when (and from
                   (string-match-p "[^ \t]" (buffer-substring from line-end)))
          (push (edn-bridge-markdown--cell from line-end) cells))
        (push (cons row (nreverse cells)) rows)
        (goto-char end)
        (when (< line-end end)
          (goto-char (1+ line-end)))))
    (nreverse rows)))

(defun edn-bridge-markdown--align (cell)
  "Return how the column with CELL in the second line is aligned."
  (let* ((text (string-trim (buffer-substring-no-properties
                             (nth 0 cell) (nth 1 cell))))
         (left (string-prefix-p ":" text))
         (right (string-suffix-p ":" text)))
    (cond ((and left right) 'center)
          (right 'right)
          (t 'left))))

(defun edn-bridge-markdown--cell (from to)
  "Return the cell between FROM and TO.
That is a list of both, of how wide it is shown, and of how wide that is
where its markup is hidden."
  (let* ((shown (string-width (buffer-substring from to)))
         (hidden shown)
         (place (text-property-not-all from to 'invisible nil)))
    (while place
      (let ((end (next-single-property-change place 'invisible nil to)))
        (setq hidden (- hidden (string-width (buffer-substring place end)))
              place (and (< end to)
                         (text-property-not-all end to 'invisible nil)))))
    (list from to shown hidden)))

(defsubst edn-bridge-markdown--cell-width (cell hidden)
  "Return how wide CELL is shown; with HIDDEN, without its markup."
  (nth (if hidden 3 2) cell))

(defun edn-bridge-markdown--widths (rows hidden)
  "Return the widths of the columns of ROWS, with HIDDEN without their markup."
  (let ((widths nil))
    (dolist (row rows)
      (let ((rest widths))
        (dolist (cell (cdr row))
          (let ((width (edn-bridge-markdown--cell-width cell hidden)))
            (if (null rest)
                (setq widths (append widths (list width)))
              (setcar rest (max width (car rest)))
              (setq rest (cdr rest)))))))
    widths))

(defun edn-bridge-markdown--drawn-rule (widths)
  "Return a rule over columns of WIDTHS, or nil where those are."
  (and widths
       (propertize (concat "├"
                           (mapconcat (lambda (width) (make-string width ?─))
                                      widths "┼")
                           "┤")
                   'face 'edn-bridge-markdown-markup)))

(defun edn-bridge-markdown--bar-places (cells)
  "Return where the bars of a row with CELLS are."
  (let ((last (nth 1 (car (last cells)))))
    (append (mapcar (lambda (cell) (1- (car cell))) cells)
            (and last (eq (char-after last) ?|) (list last)))))

(defun edn-bridge-markdown--bars (cells widths aligns hidden)
  "Return what is displayed for the bars beside CELLS, or nils without WIDTHS.
The cells get columns of WIDTHS and are aligned by ALIGNS.  HIDDEN non-nil
means where the markup is hidden."
  (let ((before 0)
        (bars nil))
    (dolist (cell cells)
      (let* ((room (and widths
                        (max 0 (- (pop widths)
                                  (edn-bridge-markdown--cell-width
                                   cell hidden)))))
             (left (pcase (pop aligns)
                     ('right room)
                     ('center (and room (/ room 2)))
                     (_ 0))))
        (push (and room (edn-bridge-markdown--bar before left)) bars)
        (setq before (if room (- room left) 0))))
    (nreverse (cons (and (car bars) (edn-bridge-markdown--bar before 0))
                    bars))))

(defun edn-bridge-markdown--bar (before after)
  "Return a bar with BEFORE and AFTER columns beside it."
  (let ((key (+ (* 10000 before) after)))
    (or (gethash key edn-bridge-markdown--drawn)
        (puthash key
                 (propertize (concat (make-string before ?\s) "│"
                                     (make-string after ?\s))
                             'face 'edn-bridge-markdown-table)
                 edn-bridge-markdown--drawn))))

;;;; Code blocks

(defvar edn-bridge-markdown-fence-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'edn-bridge-markdown-copy-code)
    (define-key map [mouse-2] #'edn-bridge-markdown-copy-code)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on the lines that begin code blocks.")

(defun edn-bridge-markdown-copy-code (&optional event)
  "Copy the code block at point, or where the mouse EVENT was.
The line above a block, with its language, belongs to it."
  (interactive (list last-nonmenu-event))
  (when (mouse-event-p event)
    (mouse-set-point event))
  (save-excursion
    (if (get-text-property (point) 'edn-bridge-markdown-code)
        (goto-char (previous-single-property-change
                    (1+ (point)) 'edn-bridge-markdown-code nil (point-min)))
      (forward-line))
    (let ((start (point))
          (end (next-single-property-change (point) 'edn-bridge-markdown-code
                                            nil (point-max))))
      (unless (get-text-property start 'edn-bridge-markdown-code)
        (user-error "There is no code here"))
      (kill-new (substring-no-properties
                 (edn-bridge-visible-unbroken start end)))
      (message "The code is on the kill ring"))))

(defvar-local edn-bridge-markdown--first-block nil
  "Marker at the first code block that waits for its faces, or nil.
The blocks themselves are marked by a text property: a marker for each
would make every insertion slower.")

(defvar edn-bridge-markdown--buffers nil
  "Buffers with code blocks that wait for their faces.")

(defvar edn-bridge-markdown--timer nil
  "Idle timer that sees to the waiting code blocks, or nil.")

(defun edn-bridge-markdown--close-block (state end)
  "Close the code block of STATE before END."
  (let ((start (marker-position (edn-bridge-markdown-block state)))
        (language (edn-bridge-markdown-language state)))
    (set-marker (edn-bridge-markdown-block state) nil)
    (setf (edn-bridge-markdown-fence state) nil
          (edn-bridge-markdown-language state) nil
          (edn-bridge-markdown-block state) nil)
    (when (and (not (member language '(nil "")))
               (< 0 (- end start) edn-bridge-markdown-code-limit))
      (put-text-property start end 'edn-bridge-markdown-language language)
      (if (and edn-bridge-markdown--first-block
               (marker-position edn-bridge-markdown--first-block))
          (when (< start edn-bridge-markdown--first-block)
            (set-marker edn-bridge-markdown--first-block start))
        (setq edn-bridge-markdown--first-block (copy-marker start)))
      (cl-pushnew (current-buffer) edn-bridge-markdown--buffers)
      (edn-bridge-markdown--schedule 0.2))))

(defun edn-bridge-markdown--schedule (seconds)
  "Have the waiting code blocks seen to when Emacs is idle for SECONDS."
  (unless edn-bridge-markdown--timer
    (setq edn-bridge-markdown--timer
          (run-with-idle-timer seconds nil
                               #'edn-bridge-markdown-fontify-blocks))))

(declare-function markdown-get-lang-mode "ext:markdown-mode")
(defvar org-src-fontify-natively)
(defvar markdown-fontify-code-blocks-natively)

(defconst edn-bridge-markdown--text-modes
  '(bibtex-mode gfm-mode html-mode latex-mode markdown-mode mhtml-mode
    nroff-mode nxml-mode plain-tex-mode rst-mode sgml-mode tex-mode
    texinfo-mode toml-ts-mode yaml-mode yaml-ts-mode)
  "Modes for text that blocks may have, in addition to those for code.
Others call modes that the text names, or read files of the user's.")

(defun edn-bridge-markdown--mode (language)
  "Return the major mode for LANGUAGE, or nil.
LANGUAGE is what an answer says.  Only a mode that the user has listed, or
a major mode for code that Emacs itself would visit a file in, is called."
  (let* ((language (downcase language))
         (listed (cdr (assoc language edn-bridge-markdown-languages)))
         (mode (or listed
                   (and (require 'markdown-mode nil t)
                        (markdown-get-lang-mode language))
                   (intern-soft (concat language "-mode")))))
    (and mode
         (symbolp mode)
         (fboundp mode)
         (or (eq mode listed)
             (memq mode edn-bridge-markdown--text-modes)
             (and (edn-bridge-markdown--visiting-mode-p mode)
                  (edn-bridge-markdown--code-mode-p mode)))
         mode)))

(defun edn-bridge-markdown--visiting-mode-p (mode)
  "Return non-nil if Emacs visits some files in MODE."
  (cl-flet ((names (entry)
              (let ((value (cdr entry)))
                (or (eq value mode)
                    ;; (REGEXP FUNCTION NON-NIL)
                    (eq (car-safe value) mode)))))
    (or (cl-some #'names auto-mode-alist)
        (cl-some #'names interpreter-mode-alist)
        (cl-some #'names (bound-and-true-p major-mode-remap-alist))
        (cl-some #'names (bound-and-true-p major-mode-remap-defaults)))))

(defun edn-bridge-markdown--code-mode-p (mode)
  "Return non-nil if MODE is a major mode for code or configuration.
What it is derived from is known once its file is loaded."
  (when (autoloadp (symbol-function mode))
    (autoload-do-load (symbol-function mode) mode))
  (or (provided-mode-derived-p mode 'prog-mode)
      (provided-mode-derived-p mode 'conf-mode)))

(defconst edn-bridge-markdown--slice 0.05
  "How many seconds one look at the code blocks that wait may take.")

(defconst edn-bridge-markdown--slow 0.02
  "A part of a block that takes longer than this is the last of its block.
Modes are made for code that people write; some take minutes over text
that is made to be slow.")

(defconst edn-bridge-markdown--code-line-limit 1000
  "Longest line, in characters, of a code block that gets faces.")

(defun edn-bridge-markdown-fontify-blocks ()
  "Give the code blocks that wait for it the faces of their languages.
Stop after a moment or when a key is pressed, and go on later."
  (setq edn-bridge-markdown--timer nil)
  (let ((deadline (+ (float-time) edn-bridge-markdown--slice)))
    (while (and edn-bridge-markdown--buffers
                (not (input-pending-p))
                (< (float-time) deadline))
      (let ((buffer (car edn-bridge-markdown--buffers)))
        (unless (and (buffer-live-p buffer)
                     (with-current-buffer buffer
                       (edn-bridge-markdown--fontify-next deadline)))
          (pop edn-bridge-markdown--buffers)))))
  (when edn-bridge-markdown--buffers
    (edn-bridge-markdown--schedule 0.5)))

(defun edn-bridge-markdown--fontify-next (deadline)
  "See to the next waiting code block of this buffer; return nil if none.
Stop at DEADLINE."
  (let* ((from (or (and edn-bridge-markdown--first-block
                        (marker-position edn-bridge-markdown--first-block))
                   (point-max)))
         (start (text-property-not-all from (point-max)
                                       'edn-bridge-markdown-language nil)))
    (if (not start)
        (progn
          (when edn-bridge-markdown--first-block
            (set-marker edn-bridge-markdown--first-block nil))
          nil)
      (let* ((language (get-text-property start 'edn-bridge-markdown-language))
             (end (next-single-property-change
                   start 'edn-bridge-markdown-language nil (point-max)))
             (done t))
        (with-demoted-errors "edn-bridge: code block: %S"
          (when-let ((mode (edn-bridge-markdown--mode language)))
            (setq done (edn-bridge-markdown--fontify-block start end mode
                                                           deadline))))
        (when done
          (set-marker edn-bridge-markdown--first-block end)
          (with-silent-modifications
            (remove-text-properties start end
                                    '(edn-bridge-markdown-language nil))))
        t))))

(defvar-local edn-bridge-markdown--reached nil
  "In a buffer that finds out faces, how far it has got.")

(defun edn-bridge-markdown--fontify-block (start end mode deadline)
  "Copy the faces that MODE gives to the text between START and END.
Return nil where DEADLINE or a key came first: the rest is to be done
later."
  (let ((text (buffer-substring-no-properties start end))
        (target (current-buffer)))
    (with-current-buffer
        (get-buffer-create (format " *edn-bridge-fontify:%s*" mode))
      (let ((inhibit-modification-hooks nil)
            (inhibit-message t)
            ;; The text must not set variables or have modes of its choice
            ;; called; and no hook of the user's expects a file here.
            (enable-local-variables nil)
            (enable-local-eval nil)
            (enable-dir-local-variables nil)
            (org-src-fontify-natively nil)
            (markdown-fontify-code-blocks-natively nil))
        (unless (eq major-mode mode)
          (delay-mode-hooks (funcall mode)))
        (unless (and edn-bridge-markdown--reached
                     (= (buffer-size) (1+ (length text)))
                     (equal text (buffer-substring-no-properties
                                  (point-min) (1- (point-max)))))
          (let ((inhibit-read-only t))
            (erase-buffer)
            (setq edn-bridge-markdown--reached
                  (and (edn-bridge-markdown--insert-parts (concat text " "))
                       (point-min)))))
        (let ((done (or (null edn-bridge-markdown--reached)
                        (edn-bridge-markdown--fontify-parts target start
                                                            deadline))))
          (when done
            (setq edn-bridge-markdown--reached nil))
          done)))))

(defun edn-bridge-markdown--insert-parts (text)
  "Insert TEXT part by part; return nil where a part is slow, and stop.
A mode may look at all that is inserted, whatever is asked of it later."
  (let ((gc-cons-threshold (max gc-cons-threshold 50000000))
        (from 0)
        (size 250)
        (slow nil))
    (while (and (not slow) (< from (length text)))
      (let ((begun (float-time))
            (to (min (length text) (+ from size))))
        (insert (substring text from to))
        (setq slow (> (- (float-time) begun) edn-bridge-markdown--slow)
              from to
              size (min 2000 (* 2 size)))))
    (not slow)))

(defun edn-bridge-markdown--fontify-parts (target start deadline)
  "Have this buffer find out faces part by part until DEADLINE.
They are copied to TARGET, where its text begins at START.  Return
non-nil where nothing is left to do."
  (let ((size 100)
        (slow (edn-bridge-markdown--long-line-p))
        (stopped nil))
    (while (and (not slow)
                (not stopped)
                (< edn-bridge-markdown--reached (1- (point-max))))
      (let* ((from edn-bridge-markdown--reached)
             (to (min (+ from size) (1- (point-max))))
             (begun (float-time)))
        (if (not (eq (while-no-input (font-lock-fontify-region from to) 'done)
                     'done))
            (setq stopped t)
          (edn-bridge-markdown--copy-faces from to target start)
          (setq edn-bridge-markdown--reached to)
          (let ((now (float-time)))
            (setq slow (> (- now begun) edn-bridge-markdown--slow)
                  stopped (> now deadline))
            (when (< (- now begun) 0.002)
              (setq size (min 2000 (* 2 size))))))))
    (or slow (>= edn-bridge-markdown--reached (1- (point-max))))))

(defun edn-bridge-markdown--long-line-p ()
  "Return non-nil if this buffer has a line that is too long for its mode."
  (save-excursion
    (goto-char (point-min))
    (let ((long nil))
      (while (not (or long (eobp)))
        (let ((from (point)))
          (forward-line)
          (setq long (> (- (point) from)
                        edn-bridge-markdown--code-line-limit))))
      long)))

(defun edn-bridge-markdown--copy-faces (from to target start)
  "Copy the faces between FROM and TO to TARGET, whose text begins at START."
  (let ((place from))
    (while (< place to)
      (let ((next (next-single-property-change place 'face nil to))
            (face (get-text-property place 'face)))
        (when face
          (let ((begin (+ start (1- place)))
                (end (+ start (1- next))))
            (with-current-buffer target
              (with-silent-modifications
                (add-face-text-property begin end face)))))
        (setq place next)))))

(provide 'edn-bridge-markdown)

;;; edn-bridge-markdown.el ends here
