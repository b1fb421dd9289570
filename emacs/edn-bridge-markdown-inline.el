;;; edn-bridge-markdown-inline.el --- Faces of markdown within a line  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; What a line of prose may have in it: code, emphasis, links, images.  The
;; faces of all markdown are here too, and how its markup is hidden.
;;
;; The text is left as it is, markup included, and so is what is copied of
;; it.  The markup is not shown, though, unless the user wants to see it:
;; it is invisible, or displayed as something else.  Both hang on the buffer,
;; so that to change it costs nothing.
;;
;; Knows no blocks: neither tables nor code blocks, nor what streams in.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-transcript)

(defgroup edn-bridge-markdown nil
  "Faces of the markdown in a transcript."
  :group 'edn-bridge)

(defcustom edn-bridge-markdown-hide-markup t
  "Non-nil means that the markup itself is not shown in new chats.
\\[edn-bridge-markdown-toggle-markup] shows and hides it in a chat."
  :type 'boolean
  :group 'edn-bridge-markdown)

;;;; Hidden markup

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

(defsubst edn-bridge-markdown--face (start end face)
  "Give the text between START and END the FACE."
  (if (eq face 'edn-bridge-markdown-block)
      ;; A display without colours sets it off by this.
      (add-text-properties start end '(face edn-bridge-markdown-block
                                            edn-bridge-markdown-code t
                                            line-prefix "  "
                                            wrap-prefix "  "))
    (put-text-property start end 'face face)))

;;;; Links

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
  (let ((target
         ;; A link of a wrapped cell is in what is displayed for its row.
         (pcase (and (mouse-event-p event) (posn-string (event-end event)))
           (`(,text . ,place)
            (get-text-property place 'edn-bridge-markdown-target text))
           (_ (get-text-property (point) 'edn-bridge-markdown-target)))))
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

;;;; Within a line

(defconst edn-bridge-markdown--faces-limit 100
  "How many pieces of markup within one line get faces.")

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

(provide 'edn-bridge-markdown-inline)

;;; edn-bridge-markdown-inline.el ends here
